"""The table of kinds: what each adds to a body, where requests go, and that all kinds are in it."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from ebbtide.catalog.model import Kind, Model, Route
from ebbtide.dialects.values import Wire
from ebbtide.dispatch.kinds import KINDS, models_url, url_of, wire_of
from ebbtide.dispatch.outcome import Call, Source
from ebbtide.dispatch.translation import body_for

VLLM_LAST = 2**31 - 1
SGLANG_LAST = -(2**31)


def body(kind: Kind, source: Source, *, scheduled: bool = True, **members: Any) -> Any:
    route = Route(id="r", kind=kind, model="inside", base_url="http://x/v1", priority_scheduling=scheduled)
    raw = msgspec.json.encode({"model": "m", "messages": [], **members})
    call = Call("chat", Model("m", "chat", (route,)), raw, "m", source)
    plain = msgspec.json.decode(body_for(call, route, stream=False))
    streamed = msgspec.json.decode(body_for(call, route, stream=True))
    assert streamed == {**plain, "stream_options": {"include_usage": True}}
    assert plain.pop("model") == "inside"
    assert plain.pop("messages") == []
    return plain


def test_every_kind_is_in_the_table() -> None:
    assert set(KINDS) == set(get_args(Kind))


@pytest.mark.parametrize(
    ("kind", "source", "scheduled", "members", "sent"),
    [
        ("vllm", "batch", True, {}, {"priority": VLLM_LAST}),
        ("vllm", "interactive", True, {}, {}),
        ("vllm", "batch", False, {}, {}),
        ("sglang", "batch", True, {}, {"priority": SGLANG_LAST}),
        ("sglang", "interactive", True, {}, {"priority": 0}),
        ("sglang", "interactive", True, {"priority": 7}, {"priority": 7}),
        ("llamacpp", "batch", True, {"max_completion_tokens": 3}, {"max_completion_tokens": 3, "max_tokens": 3}),
        ("ollama", "batch", True, {"max_tokens": 4}, {"max_tokens": 4}),
        ("openai", "batch", True, {"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
    ],
)
def test_what_a_kind_adds(
    kind: Kind, source: Source, scheduled: bool, members: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert body(kind, source, scheduled=scheduled, **members) == sent


@pytest.mark.parametrize(
    ("kind", "speaks", "wire"),
    [
        ("vllm", None, "responses"),
        ("llamacpp", None, "chat"),
        ("sglang", None, "chat"),
        ("ollama", None, "chat"),
        ("openai", None, "chat"),
        ("openai", ("chat", "responses"), "responses"),
        ("standin", None, "chat"),
        ("anthropic", None, "messages"),
        ("gemini", None, "gemini"),
        ("openai", ("embeddings",), None),
    ],
)
def test_responses_are_asked_of_those_who_speak_them_whole(
    kind: Kind, speaks: tuple[Wire, ...] | None, wire: Wire | None
) -> None:
    assert wire_of(Route(id="r", kind=kind, model="m", base_url="http://x/v1", speaks=speaks), "responses") == wire


@pytest.mark.parametrize("base", ["https://a.example", "https://a.example/v1"])
def test_anthropics_base_url_may_end_in_its_version(base: str) -> None:
    route = Route(id="r", kind="anthropic", model="c", base_url=base)
    assert url_of(route, "messages", stream=True) == "https://a.example/v1/messages"
    assert models_url(route) == "https://a.example/v1/models"


def test_geminis_version_stands_in_the_path() -> None:
    route = Route(id="r", kind="gemini", model="g", base_url="https://g.example", api_version="v1")
    assert url_of(route, "gemini", stream=False) == "https://g.example/v1/models/g:generateContent"
    versioned = Route(id="r", kind="gemini", model="tunedModels/t", base_url="https://g.example/v1beta")
    assert url_of(versioned, "gemini", stream=False) == "https://g.example/v1beta/tunedModels/t:generateContent"
