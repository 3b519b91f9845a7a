"""Nothing of an upstream's identity survives scrubbing."""

from __future__ import annotations

import pytest

from ebbtide.catalog.model import Route
from ebbtide.dispatch.scrub import MAX_MESSAGE, safe_code, scrub

ROUTE = Route(id="r", kind="vllm", model="acme/Secret-8B", base_url="http://gpu-a:8000/v1", api_keys=("topsecretkey",))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("The model `acme/Secret-8B` does not exist.", "The model `mine` does not exist."),
        ("acme/Secret-8B-extra is another", "acme/Secret-8B-extra is another"),
        ("POST http://gpu-a:8000/v1/chat/completions failed", "POST [address] failed"),
        ("cannot reach gpu-a:8000", "cannot reach [address]"),
        ("host GPU-A is down, gpu-ab is not", "host [address] is down, gpu-ab is not"),
        ("from 10.1.2.3:8000 and 192.168.0.1.", "from [address] and [address]."),
        ("from [fe80::1:2]:80 or ::1 or 2001:db8:0:0:0:0:0:1", "from [address] or [address] or [address]"),
        ("connect to node-3.cluster.local:9000 failed", "connect to [address] failed"),
        ("key topsecretkey is wrong", "key [key] is wrong"),
        ("Incorrect API key provided: sk-abc***********xyz.", "Incorrect API key provided: [key]"),
        ("header Authorization: Bearer abc.def", "header Authorization: [key]"),
        ("maximum context length is 4096 tokens at 12:30:45", "maximum context length is 4096 tokens at 12:30:45"),
        ("temperature must be in [0.0, 2.0], got 3.5", "temperature must be in [0.0, 2.0], got 3.5"),
        ("nul\0 and \ud800 surrogate", "nul and ? surrogate"),
    ],
)
def test_scrubbing(said: str, shown: str) -> None:
    assert scrub(said, ROUTE, "mine") == shown


def test_a_long_message_is_cut() -> None:
    shown = scrub("x" * 100_000, ROUTE, "mine")
    assert len(shown) == MAX_MESSAGE
    assert shown.endswith("…")


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("context_length_exceeded", True),
        ("http://x", False),
        ("a b", False),
        ("", False),
        (None, False),
        ("x" * 65, False),
    ],
)
def test_which_codes_are_kept(code: str | None, kept: bool) -> None:
    assert safe_code(code) == (code if kept else None)
