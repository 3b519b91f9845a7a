"""Upstreams' answers: checked, named, and read whatever they hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion

from ebbtide.dialects.openai.responses import read_answer, read_error
from ebbtide.dialects.values import MalformedAnswer, UpstreamError, Usage

ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "up/stream",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "a\u2028b\x85c"}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 14,
        "completion_tokens": 120,
        "total_tokens": 134,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 100},
    },
}

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def usage(**members: object) -> Usage | None:
    return read_answer("chat", json.dumps({"choices": [], "usage": members}).encode(), "llama").usage


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_an_answer_becomes_one_line_under_the_callers_name(indent: int | None, ensure_ascii: bool) -> None:
    sent = json.dumps(ANSWER, indent=indent, ensure_ascii=ensure_ascii).replace("\n", "\r\n").encode()
    answer = read_answer("chat", sent, "llama")
    assert len(answer.body.decode().splitlines()) == 1
    assert json.loads(answer.body) == ANSWER | {"model": "llama"}
    assert answer.usage == Usage(14, 4, 120, 100)
    assert answer.error is None
    assert ChatCompletion.model_validate_json(answer.body).model == "llama"


def test_an_answer_that_needs_nothing_keeps_its_bytes() -> None:
    sent = b'{"model" : "llama", "choices": [], "x": 1e0}'
    assert read_answer("chat", sent, "llama").body is sent
    assert read_answer("chat", b'{"x": 1e0}', "llama").body == b'{"x": 1e0}'
    assert read_answer("chat", sent, "other").body == b'{"model":"other","choices":[],"x":1e0}'
    assert read_answer("chat", b'{"x":\n1e0}', "llama").body == b'{"x":1e0}'


def test_embeddings_count_input_alone() -> None:
    sent = json.dumps(
        {
            "object": "list",
            "model": "up",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1e-9]}],
            "usage": {"prompt_tokens": 8, "total_tokens": 8},
        }
    ).encode()
    answer = read_answer("embeddings", sent, "embed")
    assert answer.usage == Usage(8, 0, 0, 0)
    assert CreateEmbeddingResponse.model_validate_json(answer.body).model == "embed"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>busy</html>",
        b'{"choices": [',
        b'{"choices": "\xff"}',
        b'{"choices": NaN}',
        b'{"choices": 1e999}',
        b'{"choices": "\\ud800"}',
        b'{"choices": ' + b"9" * 5000 + b"}",
        b"[]",
        b'"text"',
        b"null",
        b"[" * 100_000,
        b'{"a":1} {"a":2}',
    ],
)
def test_what_is_no_json_object_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read_answer("chat", body, "llama")


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"prompt_tokens": 5},
        {"completion_tokens": 5},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 5.0, "completion_tokens": 1},
        {"prompt_tokens": 5, "completion_tokens": -1},
        {"prompt_tokens": "5", "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 10**12, "completion_tokens": 1},
    ],
)
def test_usage_that_cannot_be_believed_is_none(members: dict[str, object]) -> None:
    assert usage(**members) is None


@pytest.mark.parametrize(
    "details", [None, [], 5, {}, {"cached_tokens": None}, {"cached_tokens": -1}, {"cached_tokens": 1.5}]
)
def test_details_that_make_no_sense_count_as_none(details: object) -> None:
    assert usage(prompt_tokens=5, completion_tokens=1, prompt_tokens_details=details) == Usage(5, 0, 1, 0)


def test_details_are_never_more_than_the_whole() -> None:
    found = usage(
        prompt_tokens=5,
        completion_tokens=1,
        prompt_tokens_details={"cached_tokens": 9},
        completion_tokens_details={"reasoning_tokens": 9},
    )
    assert found == Usage(5, 5, 1, 1)


@given(ANYTHING)
def test_nothing_in_an_answer_raises(anything: object) -> None:
    for told in ({"usage": anything}, {"error": anything}, {"model": anything, "error": {"message": anything}}):
        body = json.dumps(told).encode()
        assert json.loads(read_answer("chat", body, "llama").body) == told | (
            {"model": "llama"} if "model" in told else {}
        )
        assert read_error(body, 400).message
    assert read_error(json.dumps(anything).encode(), 400).message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "error": {
                    "message": "too long",
                    "type": "invalid_request_error",
                    "param": "messages",
                    "code": "too_long",
                }
            },
            UpstreamError("too long", "too_long", "messages"),
        ),
        (
            {"error": {"message": "no", "type": "BadRequestError", "code": 400}},
            UpstreamError("no"),
        ),
        ({"error": "model not found"}, UpstreamError("model not found")),
        (
            {"object": "error", "message": "no", "type": "NotFoundError", "param": None, "code": 404},
            UpstreamError("no"),
        ),
        ({"detail": "Not Found"}, UpstreamError("Not Found")),
        (
            {
                "detail": [
                    {"loc": ["body", "messages", 0], "msg": "field required", "input": "the prompt"},
                    {"msg": "x"},
                ]
            },
            UpstreamError("messages.0: field required; x"),
        ),
        ([{"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}], UpstreamError("bad")),
        ({"message": "slow down"}, UpstreamError("slow down")),
        ({"error": {"message": "a\0b"}}, UpstreamError("a\ufffdb")),
        ({"error": {"message": "x" * 5000}}, UpstreamError("x" * 2000)),
    ],
)
def test_errors_are_read_in_every_usual_shape(body: object, expected: UpstreamError) -> None:
    assert read_error(json.dumps(body).encode(), 400) == expected


@pytest.mark.parametrize(
    "body", [b"", b"<html>nginx 10.0.0.7</html>", b"{}", b"[]", b"7", b'{"error": {}}', b"[" * 99999]
)
def test_pages_and_rubbish_become_a_sentence(body: bytes) -> None:
    assert read_error(body, 502).message == "The upstream answered with status 502 and no further explanation"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "overloaded"}}', "overloaded"),
        (b'{"error": "overloaded"}', "overloaded"),
        (b'{"object": "error", "message": "overloaded"}', "overloaded"),
        (b'{"error": {"odd": 1}}', "The upstream answered with an error and no further explanation"),
    ],
)
def test_an_error_under_a_200_is_found(body: bytes, message: str) -> None:
    found = read_answer("chat", body, "llama").error
    assert found is not None
    assert found.message == message


@pytest.mark.parametrize(
    "body", [b'{"choices": [], "error": {"message": "x"}}', b'{"data": [], "error": "x"}', b'{"error": null}', b"{}"]
)
def test_an_answer_is_no_error(body: bytes) -> None:
    assert read_answer("chat", body, "llama").error is None
