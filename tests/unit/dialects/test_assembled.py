"""A stream put together again is the answer in one piece."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ebbtide.dialects.assembled import assembled


def events(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + end


def chunk(delta: dict[str, Any], index: int = 0, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": more.pop("finish_reason", None)}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]} | more


def answer(stream: bytes) -> Any:
    whole = assembled(stream)
    assert whole is not None
    return msgspec.json.decode(whole)


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


def test_a_responses_stream_is_its_last_event_or_what_there_is_of_it() -> None:
    begun = {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}}
    pieces = [{"type": "response.output_text.delta", "delta": text} for text in ("Gu", "ten Tag")]
    whole = {"id": "r1", "status": "completed", "output": [{"type": "message"}]}
    assert answer(events(begun, *pieces, {"type": "response.completed", "response": whole})) == whole
    cut = answer(events(begun, {"type": "response.output_item.done", "item": {"type": "reasoning"}}, *pieces, end=b""))
    assert (cut["id"], cut["status"], cut["output"][0]) == ("r1", "in_progress", {"type": "reasoning"})
    assert cut["output"][1]["content"] == [{"type": "output_text", "text": "Guten Tag"}]


def test_a_messages_stream_is_its_blocks() -> None:
    def delta(index: int, **told: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": told}

    stream = events(
        {
            "type": "message_start",
            "message": {"id": "m1", "role": "assistant", "content": [], "usage": {"input_tokens": 3}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        delta(0, type="text_delta", text="Guten "),
        delta(0, type="text_delta", text="Tag"),
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "look", "input": {}}},
        delta(1, type="input_json_delta", partial_json='{"a"'),
        delta(1, type="input_json_delta", partial_json=":1}"),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    )
    told = answer(stream)
    assert (told["id"], told["stop_reason"], told["usage"]) == (
        "m1",
        "tool_use",
        {"input_tokens": 3, "output_tokens": 7},
    )
    assert told["content"] == [
        {"type": "text", "text": "Guten Tag"},
        {"type": "tool_use", "name": "look", "input": {"a": 1}},
    ]
    assert answer(stream[:-400])["content"][0]["text"].startswith("Guten")


@pytest.mark.parametrize(
    "stream", [b"", b"not events", events({"type": "ping"}), events([1], "x"), events({"error": 1})]
)
def test_what_is_no_such_stream_is_left_alone(stream: bytes) -> None:
    assert assembled(stream) is None
