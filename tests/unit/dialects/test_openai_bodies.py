"""Interactive and batched bodies: what is refused, by which name, and what passes through."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dialects.openai.bodies import check_batch_body, parse_body, streamed
from ebbtide.dialects.values import Limits, Target, Terms, with_model
from ebbtide.errors import InvalidRequest

USER = {"role": "user", "content": "hello"}


def chat(**members: object) -> bytes:
    return json.dumps({"model": "llama", "messages": [USER], **members}).encode()


def embeddings(given: object, **members: object) -> bytes:
    return json.dumps({"model": "embed", "input": given, **members}).encode()


def refused(target: Target, raw: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_body(target, raw)
    return caught.value


def test_a_chat_body_is_lifted() -> None:
    raw = chat(stream=True, max_tokens=7, stream_options={"include_usage": True}, top_k=3, unknown={"x": [1]})
    body = parse_body("chat", raw)
    assert (body.model, body.raw, body.stream, body.max_tokens, body.asks_usage) == ("llama", raw, True, 7, True)


def test_the_newer_name_of_max_tokens_wins() -> None:
    assert parse_body("chat", chat(max_tokens=7, max_completion_tokens=9)).max_tokens == 9
    assert parse_body("chat", chat(max_completion_tokens=None)).max_tokens is None


def test_a_leading_bom_is_stripped() -> None:
    assert parse_body("chat", b"\xef\xbb\xbf" + chat()).raw == chat()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"stream": None, "max_tokens": None, "n": None, "temperature": None, "stop": None, "tools": None},
        {"temperature": 0, "top_p": 0.5, "stop": "x", "n": 2, "logprobs": True},
        {"stop": ["a", "b"], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
        {"stream": False, "include": [], "max_completion_tokens": 5, "stream_options": None, "user": "me"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url"}]}]},
        {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": ""}]},
        {"messages": [USER, {"role": "assistant", "reasoning_content": "…"}]},
        {"messages": [{"role": "user", "content": "a \u0000 passes"}]},
    ],
)
def test_what_endpoints_take_passes(members: dict[str, object]) -> None:
    assert parse_body("chat", chat(**members)).model == "llama"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": "m" * 257}, "model"),
        ({"model": "a\0b"}, "model"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [USER, {"content": "x"}]}, "messages[1].role"),
        ({"messages": [{"role": 7, "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": []}, "top_p"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stop": 5}, "stop"),
        ({"stop": [5]}, "stop[0]"),
        ({"tools": {}}, "tools"),
        ({"tools": ["f"]}, "tools[0]"),
    ],
)
def test_the_field_at_fault_is_named(members: dict[str, object], param: str) -> None:
    error = refused("chat", chat(**members))
    assert error.param == param
    assert error.message.startswith(f"{param}: ")
    assert error.code is None


def test_messages_name_types_in_json_words_and_never_values() -> None:
    error = refused("chat", chat(messages=[{"role": ["private words"], "content": "x"}]))
    assert error.message == "messages[0].role: expected string, got array"
    assert refused("chat", b'{"model": "m"}').message == "messages: required"


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"null", b"7"])
def test_a_body_is_an_object(raw: bytes) -> None:
    assert refused("chat", raw).message == "The body must be a JSON object"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"messages": [USER] * 3}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}] * 2}] * 2}, "messages[].content"),
        ({"tools": [{}] * 3}, "tools"),
        ({"stop": ["x"] * 3}, "stop"),
    ],
)
def test_each_limit_holds(members: dict[str, object], param: str) -> None:
    assert parse_body("chat", chat(**members)).model == "llama"
    tight = Terms(Limits(messages=2, content_parts=3, tools=2, stop_sequences=2))
    with pytest.raises(InvalidRequest) as error:
        parse_body("chat", chat(**members), tight)
    assert error.value.param == param


@pytest.mark.parametrize("given", ["text", "", ["a", ""], [1, 2, 3], [[1], [2, 3]]])
def test_embeddings_take_text_and_tokens(given: object) -> None:
    assert parse_body("embeddings", embeddings(given, dimensions=256, encoding_format="base64")).model == "embed"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ([], "input"),
        (None, "input"),
        (5, "input"),
        ({}, "input"),
        ([None], "input[0]"),
        ([True], "input[0]"),
        ([1.5], "input[0]"),
        (["a", 1], "input[1]"),
        ([1, True], "input[1]"),
        ([[1], []], "input[1]"),
        ([[1], ["a"]], "input[1]"),
    ],
)
def test_other_embedding_inputs_are_refused(given: object, param: str) -> None:
    assert refused("embeddings", embeddings(given)).param == param


def test_an_embeddings_request_has_an_input() -> None:
    assert refused("embeddings", b'{"model": "m"}').param == "input"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"stream": True}, "stream"),
        ({"background": True}, "background"),
        ({"background": False}, "background"),
        ({"priority": 0}, "priority"),
        ({"anthropic_version": "2023-06-01"}, "anthropic_version"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"service_tier": {}}, "service_tier"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_a_batch_refuses_more(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_batch_body("chat", json.loads(chat(**members)))
    assert caught.value.param == param


@pytest.mark.parametrize("target", ["chat", "embeddings"])
def test_nulls_and_the_ordinary_tiers_pass_in_a_batch(target: Target) -> None:
    raw = chat() if target == "chat" else embeddings("x")
    for tier in (None, "auto", "default"):
        body = json.loads(raw) | {"stream": None, "background": None, "priority": None, "service_tier": tier}
        assert check_batch_body(target, body | {"stream": False, "n": 3, "logprobs": True}).model == body["model"]


def test_an_embeddings_request_does_not_stream_in_a_batch() -> None:
    with pytest.raises(InvalidRequest, match=r"^stream: "):
        check_batch_body("embeddings", json.loads(embeddings("x", stream=True)))


def test_nothing_to_change_gives_the_same_bytes() -> None:
    raw = b'{ "model" : "llama",\n "messages": [] }'
    assert with_model(raw, "llama") is raw


def test_a_second_model_key_never_reaches_an_upstream() -> None:
    for raw in (b'{"model":"dear","model":"cheap"}', b'{"mode\\u006c":"dear","model":"cheap"}'):
        assert with_model(raw, "cheap") == b'{"model":"cheap"}'


def test_other_members_keep_their_spelling() -> None:
    rest = (
        b'"temperature":1e0,"x":{"a" : 1.0, "model":"llama"},"text":"\\u00e9\\/","big":123456789012345678901234567890'
    )
    sent = with_model(b'{"model":"llama",' + rest + b"}", "up/stream", added=[1])
    assert sent == b'{"model":"up/stream",' + rest + b',"added":[1]}'


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())), st.text(min_size=1), st.booleans())
def test_with_model_changes_the_model_alone(members: dict[str, object], model: str, escaped: bool) -> None:
    raw = json.dumps({**members, "model": "llama"}, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    before = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    after = msgspec.json.decode(with_model(raw, model), type=dict[str, msgspec.Raw])
    assert json.loads(bytes(after.pop("model"))) == model
    del before["model"]
    assert {key: bytes(value) for key, value in after.items()} == {key: bytes(value) for key, value in before.items()}


def test_a_stream_is_asked_for_its_usage() -> None:
    body = parse_body("chat", chat(stream=True, stream_options={"include_usage": False, "chunk": 2}))
    sent = json.loads(streamed(body.raw, "up"))
    assert sent["stream_options"] == {"include_usage": True, "chunk": 2}
    assert sent["model"] == "up"
    assert json.loads(streamed(chat(stream=True), "up"))["stream_options"] == {"include_usage": True}
