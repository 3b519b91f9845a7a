"""The stand-in's answers are what the official SDK's types expect, and never change for the same request."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import msgspec
import pytest
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from ebbtide.dispatch import standin


def body(**members: Any) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "Say hi"}], **members})


def test_a_chat_answer_parses_and_names_itself() -> None:
    answer = ChatCompletion.model_validate_json(standin.answer("chat", body(), "m"), strict=True)
    assert answer.model == "m"
    content = answer.choices[0].message.content
    assert content is not None
    assert "stand-in model" in content
    assert "Say hi" in content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert standin.answer("chat", body(), "m") == standin.answer("chat", body(), "m")
    assert standin.answer("chat", body(seed=1), "m") != standin.answer("chat", body(), "m")


def test_counting_reads_the_system_prompt_and_every_message() -> None:
    said = {"system": [{"type": "text", "text": "12345"}], "messages": [{"role": "user", "content": "1234"}]}
    assert json.loads(standin.answer("count_tokens", msgspec.json.encode(said), "m")) == {"input_tokens": 2 + 1}


def test_max_tokens_cuts() -> None:
    answer = ChatCompletion.model_validate_json(standin.answer("chat", body(max_tokens=3), "m"))
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_choices_and_content_parts() -> None:
    parts = [{"type": "text", "text": "part one"}, {"type": "image_url", "image_url": {"url": "x"}}]
    raw = standin.answer("chat", body(n=2, messages=[{"role": "user", "content": parts}]), "m")
    answer = ChatCompletion.model_validate_json(raw)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert "part one" in (answer.choices[0].message.content or "")


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_says_the_same(usage: bool) -> None:
    request = body(stream=True, stream_options={"include_usage": usage})
    *events, done = standin.chunks(request, "m")
    assert done == b"data: [DONE]\n\n"
    chunks = [ChatCompletionChunk.model_validate_json(event.removeprefix(b"data: ")) for event in events]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = ChatCompletion.model_validate_json(standin.answer("chat", request, "m"))
    assert text == whole.choices[0].message.content
    assert [chunk.usage for chunk in chunks if chunk.usage] == ([whole.usage] if usage else [])


def test_embeddings_as_floats_and_packed() -> None:
    request = {"model": "m", "input": ["a", "b", "a"], "dimensions": 8}
    floats = CreateEmbeddingResponse.model_validate_json(
        standin.answer("embeddings", msgspec.json.encode(request), "m"), strict=True
    )
    vectors = [entry.embedding for entry in floats.data]
    assert [len(vector) for vector in vectors] == [8, 8, 8]
    assert vectors[0] == vectors[2] != vectors[1]
    assert math.isclose(math.hypot(*vectors[0]), 1.0)
    packed = msgspec.json.decode(
        standin.answer("embeddings", msgspec.json.encode({**request, "encoding_format": "base64"}), "m")
    )
    unpacked = struct.unpack("<8f", base64.b64decode(packed["data"][0]["embedding"]))
    assert unpacked == pytest.approx(vectors[0], abs=1e-6)


@pytest.mark.parametrize(("wanted", "size"), [(True, 256), (0, 256), ("8", 256), (10**30, 4096), (None, 256)])
def test_odd_dimensions_make_a_vector_too(wanted: Any, size: int) -> None:
    raw = standin.answer("embeddings", json.dumps({"model": "m", "input": "a", "dimensions": wanted}).encode(), "m")
    assert len(CreateEmbeddingResponse.model_validate_json(raw).data[0].embedding) == size


@pytest.mark.parametrize(("given", "count"), [("text", 1), ([1, 2, 3], 1), ([[1], [2, 3]], 2), (["a", "b"], 2)])
def test_every_form_of_input(given: Any, count: int) -> None:
    raw = standin.answer("embeddings", msgspec.json.encode({"model": "m", "input": given}), "m")
    assert len(CreateEmbeddingResponse.model_validate_json(raw).data) == count
