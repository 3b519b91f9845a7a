"""The digest of a create call: what it does not see, and everything else that it does."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from ebbtide.dialects.openai.canonical import create_digest

BODY = {"model": "m", "messages": [{"role": "user", "content": "Größe € 😀"}], "seed": 12345678901234567890123}
CREATE: dict[str, Any] = {"requests": [{"custom_id": "a", "body": BODY}], "metadata": {"b": "2", "a": "1"}}


def digest(value: Any, **how: Any) -> bytes:
    return create_digest(msgspec.json.encode(value), **how)


def turned(value: Any) -> Any:
    """The same with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


def test_it_is_over_the_canonical_json_of_surface_target_version_and_body() -> None:
    canonical = (
        b'{"body":{"completion_window":"24h","endpoint":"/v1/embeddings","input_file_id":"file-1"},'
        b'"surface":"openai_file","target":"embeddings","version":null}'
    )
    create = {"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"}
    assert digest(create) == hashlib.sha256(canonical).digest()


def test_direct_requests_count_as_part_of_the_whole() -> None:
    canonical = (
        b'{"body":{"metadata":null,"requests":[{"body":{},"custom_id":"\\u00e9"},7]},'
        b'"surface":"openai_inline","target":"chat","version":"2023-06-01"}'
    )
    create = {"requests": [{"custom_id": "é", "body": {}}, 7], "metadata": None}
    assert digest(create, version="2023-06-01") == hashlib.sha256(canonical).digest()


def test_spacing_escapes_and_the_order_of_keys_are_not_seen() -> None:
    spaced = msgspec.json.format(msgspec.json.encode(turned(CREATE)), indent=3)
    escaped = msgspec.json.encode(CREATE).replace("€".encode(), b"\\u20ac").replace(b'"model"', b'"mod\\u0065l"')
    assert digest(CREATE) == create_digest(spaced) == create_digest(escaped)
    assert digest(CREATE) == create_digest(b"\xef\xbb\xbf" + spaced)


@pytest.mark.parametrize(
    "other",
    [
        CREATE | {"metadata": {"a": "1"}},
        CREATE | {"metadata": None},
        CREATE | {"requests": CREATE["requests"] * 2},
        CREATE | {"requests": [{"custom_id": "a", "body": BODY | {"seed": 12345678901234567890124}}]},
        CREATE | {"requests": [{"custom_id": "a", "url": "/v1/chat/completions", "body": BODY}]},
        CREATE | {"unknown": 1},
        {"requests": None, "input_file_id": "file-1"},
    ],
)
def test_anything_else_is_another_request(other: Any) -> None:
    assert digest(other) != digest(CREATE)


def test_the_order_of_requests_and_the_version_are_seen() -> None:
    pair = [{"custom_id": "a"}, {"custom_id": "b"}]
    assert digest({"requests": pair}) != digest({"requests": pair[::-1]})
    assert digest(CREATE) != digest(CREATE, version="2023-06-01")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no json",
        b"[1]",
        b'{"requests": 7}',
        b'{"requests": [1e999, "\xff", "\\ud800"]}',
        b'{"requests": [%b1%b]}' % (b"[" * 5_000, b"]" * 5_000),
        b'{"requests": []}',
        b'{"endpoint": 7}',
    ],
)
def test_what_is_wrong_has_a_digest_of_its_own(raw: bytes) -> None:
    assert create_digest(raw) == create_digest(raw)
    assert create_digest(raw) != create_digest(raw + b" x")
