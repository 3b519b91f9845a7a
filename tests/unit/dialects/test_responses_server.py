"""Servers that speak nothing but the Responses API: what is written to them, and what is read from them."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pieces import pieces_of

from ebbtide.dialects.conversation import (
    Choice,
    Completion,
    Conversation,
    End,
    Format,
    Image,
    Message,
    Named,
    Sampling,
    Sent,
    Text,
    Thought,
    ThoughtEnd,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from ebbtide.dialects.openai.responses_api.answers import asked, write_response
from ebbtide.dialects.openai.responses_api.requests import read_request
from ebbtide.dialects.openai.responses_api.server_answers import ResponsePieces, read_response
from ebbtide.dialects.openai.responses_api.server_requests import write_request
from ebbtide.dialects.openai.responses_api.stream import Events
from ebbtide.dialects.values import Usage
from ebbtide.errors import InvalidRequest

SENT = Sent("inside", stream=True)
ASKED = asked(b'{"model":"m","input":"Hi"}', Named("m", 5))
USAGE = Usage(10, 4, 6, 2, 1)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)
images = st.builds(
    Image,
    media_type=st.just("image/png"),
    data=st.just("AAAA"),
    detail=st.none() | st.sampled_from(["low", "high"]),
)
said = st.builds(Text, texts)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=objects)
messages = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), parts=st.lists(said, min_size=1).map(tuple)),
    st.builds(Message, role=st.just("user"), parts=st.lists(said | images, min_size=1).map(tuple)),
    st.builds(
        Message,
        role=st.just("tool"),
        parts=st.tuples(st.builds(ToolResult, call_id=texts, parts=st.lists(said | images).map(tuple))),
    ),
)
turns = st.lists(calls, min_size=1, max_size=3).map(lambda parts: Message("assistant", tuple(parts)))
tools = st.builds(Tool, name=texts, description=st.none() | texts, schema=objects, strict=st.booleans())
conversations = st.builds(
    Conversation,
    messages=st.tuples(messages, turns, messages).map(lambda told: (*told, Message("user", (Text("So?"),)))),
    tools=st.lists(tools, min_size=1, max_size=2).map(tuple),
    tool_choice=st.none() | st.sampled_from([ToolChoice("auto"), ToolChoice("none"), ToolChoice("tool", "f")]),
    parallel_tools=st.none() | st.booleans(),
    sampling=st.builds(Sampling, temperature=st.none() | st.just(0.5), top_p=st.none() | st.just(0.25)),
    format=st.none() | st.just(Format()) | st.builds(Format, schema=objects, name=texts, strict=st.booleans()),
    max_tokens=st.none() | st.integers(1, 100),
    effort=st.none() | st.sampled_from(["low", "high"]),
    user=st.none() | st.tuples(st.sampled_from(["user", "safety_identifier"]), texts),
    tier=st.none() | st.sampled_from(["auto", "default"]),
)


@given(conversations)
def test_a_request_survives_being_written_and_read_back(told: Conversation) -> None:
    written = write_request(told, SENT)
    assert msgspec.json.decode(written)["store"] is False
    assert pathless(read_request(written)) == pathless(told)


def pathless(told: Conversation) -> Any:
    """Without paths, and without the names of tools in results: a reader takes them from the calls before."""
    plain = msgspec.to_builtins(told)

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            dropped = {"path", "name"} if value.get("type") == "ToolResult" else {"path"}
            return {name: strip(member) for name, member in value.items() if name not in dropped}
        return [strip(member) for member in value] if isinstance(value, (list, tuple)) else value

    return strip(plain)


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"stop": ("x",)}, "stop"),
        ({"count": 2}, "n"),
        ({"sampling": Sampling(seed=1)}, "seed"),
        ({"thinking_tokens": 9}, "thinking"),
        ({"continues": "messages[1]"}, "messages[1]"),
        ({"messages": (Message("assistant", (Thought("Hm", path="messages[0].x"),)),)}, "messages[0].x"),
        ({"messages": (Message("tool", (ToolResult("c", (), failed=True, path="r"),)),)}, "r.is_error"),
    ],
)
def test_what_the_api_cannot_say_is_refused(members: dict[str, Any], path: str) -> None:
    told = Conversation(**{"messages": (Message("user", (Text("Hi"),)),), **members})
    with pytest.raises(InvalidRequest) as refused:
        write_request(told, SENT)
    assert (refused.value.param, refused.value.code) == (path, "unsupported_parameter")


parts = st.lists(st.builds(Text, texts) | calls | st.builds(Thought, texts), min_size=1, max_size=5)


@given(parts)
def test_an_answer_is_read_as_it_was_written(told: list[Any]) -> None:
    finish = "tool_calls" if any(isinstance(part, ToolCall) for part in told) else "stop"
    whole = Completion("id", (Choice(tuple(told), finish),), USAGE)  # type: ignore[arg-type]
    read = read_response(write_response(whole, ASKED))
    assert (read.usage, read.choices[0].finish) == (USAGE, finish)
    assert joined(list(read.choices[0].parts)) == joined(told)


def joined(told: list[Any]) -> list[Any]:
    out: list[Any] = []
    for part in told:
        if out and isinstance(part, (Text, Thought)) and type(out[-1]) is type(part):
            out[-1] = type(part)(out[-1].text + part.text)
        else:
            out.append(msgspec.structs.replace(part, path="") if hasattr(part, "path") else part)
    return out


@given(parts, st.integers(1, 50))
def test_a_stream_is_read_as_it_was_written(told: list[Any], size: int) -> None:
    pieces = [piece for piece in pieces_of(joined(told)) if not isinstance(piece, ThoughtEnd)]
    writer = Events(ASKED)
    raw = writer.write(pieces, "id") + writer.finish(USAGE)
    reader = ResponsePieces()
    read = [piece for at in range(0, len(raw), size) for piece in reader.feed(raw[at : at + size])]
    assert (reader.done, reader.usage, reader.error) == (True, USAGE, None)
    assert isinstance(read[-1], End)
    shown = [piece for piece in pieces[:-1] if getattr(piece, "text", "-")]
    assert sorted(map(repr, read[:-1])) == sorted(map(repr, shown))


def test_what_failed_or_waits_is_no_answer() -> None:
    for status in ("failed", "queued", "in_progress", "cancelled"):
        with pytest.raises(ValueError, match="Not an answer"):
            read_response(msgspec.json.encode({"id": "r", "status": status, "output": []}))


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.sampled_from(["message", "function_call", "completed"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "content", "text", "output", "item", "response", "delta"]), inner)
    ),
    max_leaves=10,
)


@given(st.lists(odd, max_size=3))
def test_an_odd_answer_is_read_or_malformed(told: list[Any]) -> None:
    reader = ResponsePieces()
    for one in told:
        raw = msgspec.json.encode(one)
        with contextlib.suppress(ValueError):
            read_response(raw)
        for kind in ("response.created", "response.output_item.added", "response.completed", "error"):
            event = {"type": kind, **one} if isinstance(one, dict) else {"type": kind, "response": one, "item": one}
            reader.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")
        reader.feed(b"data: " + raw + b"\n\n")
    reader.close()
