"""A chat stream put together again is the answer in one piece."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ebbtide.dialects.openai.assembled import assembled_chat


def events(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + end


def chunk(delta: dict[str, Any], index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": more.pop("finish_reason", None)}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]} | more


def answer(stream: bytes) -> Any:
    assembled = assembled_chat(stream)
    assert assembled is not None
    return msgspec.json.decode(assembled)


def test_texts_and_choices_grow_each_by_itself() -> None:
    stream = events(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Gu"}),
        chunk({"content": "Hi"}, 1),
        chunk({"content": "ten Tag", "reasoning_content": "hm"}),
        chunk({}, finish_reason="stop"),
        {"id": "c1", "model": "m", "choices": [], "usage": {"total_tokens": 9}},
    )
    told = answer(stream)
    assert (told["object"], told["id"], told["model"], told["usage"]) == (
        "chat.completion",
        "c1",
        "m",
        {"total_tokens": 9},
    )
    first, second = told["choices"]
    assert first["message"] == {"role": "assistant", "content": "Guten Tag", "reasoning_content": "hm"}
    assert (first["finish_reason"], second["message"]["content"], second["index"]) == ("stop", "Hi", 1)


def test_calls_of_tools_grow_by_their_number() -> None:
    def call(index: int, **function: str) -> dict[str, Any]:
        return {"index": index, "function": function}

    stream = events(
        chunk(
            {"role": "assistant", "content": None, "tool_calls": [call(0, name="look", arguments="") | {"id": "t0"}]}
        ),
        chunk({"tool_calls": [call(0, arguments='{"a"')]}),
        chunk({"tool_calls": [call(1, name="see", arguments="{}") | {"id": "t1"}]}),
        chunk({"tool_calls": [call(0, arguments=":1}")]}),
    )
    one, two = answer(stream)["choices"][0]["message"]["tool_calls"]
    assert (one["id"], one["function"]) == ("t0", {"name": "look", "arguments": '{"a":1}'})
    assert (two["id"], two["function"]) == ("t1", {"name": "see", "arguments": "{}"})


def test_a_stream_that_was_cut_gives_what_there_is() -> None:
    stream = events(chunk({"content": "half"}), chunk({"content": "lost"}), end=b"")[:-12]
    assert answer(stream)["choices"][0]["message"]["content"] == "half"
    broken = answer(events(chunk({"content": "a"}), {"error": {"message": "gone"}}, end=b""))
    assert (broken["error"], broken["choices"][0]["message"]["content"]) == ({"message": "gone"}, "a")


@pytest.mark.parametrize("stream", [b"", b"not events", events({"type": "message_start"}), events([1], "x")])
def test_what_is_no_chat_stream_is_left_alone(stream: bytes) -> None:
    assert assembled_chat(stream) is None
