"""Messages and chat completions into each other by way of the neutral form, by property: a request that is written
reads back as the same, an answer's words and calls survive whole and streamed, and what comes in is refused or read.
"""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ebbtide.dialects.anthropic.bodies import VERSIONS, check_batch_body, parse_body, parse_count
from ebbtide.dialects.anthropic.completions import MessageEvents, write_message
from ebbtide.dialects.anthropic.conversation import read_conversation
from ebbtide.dialects.anthropic.passing import MessageStream, pass_answer
from ebbtide.dialects.anthropic.requests import write_request
from ebbtide.dialects.anthropic.responses import read_message
from ebbtide.dialects.anthropic.stream import MessageEvents as MessageReader
from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    Conversation,
    End,
    Image,
    Named,
    Piece,
    Sampling,
    Sent,
    Text,
    TextPiece,
    Thought,
    ThoughtPiece,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from ebbtide.dialects.conversation import Message as Turn
from ebbtide.dialects.openai.chat_answers import ChatPieces, read_completion
from ebbtide.dialects.openai.chat_requests import write_chat
from ebbtide.dialects.openai.completions import Chunks, write_completion
from ebbtide.dialects.openai.conversation import read_conversation as read_chat
from ebbtide.dialects.values import Limits, MalformedAnswer, Terms, Usage
from ebbtide.errors import InvalidRequest

unhurried = settings(deadline=None, max_examples=50)

SENT = Sent("m", "2023-06-01", 100, extras=frozenset({"top_k"}))
NAMED = Named("m", 1)
EVENTS = TypeAdapter[Any](RawMessageStreamEvent)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, values, max_size=3)
texts = st.builds(Text, words)
images = st.builds(Image, media_type=st.just("image/png"), data=st.just("AAAA")) | st.builds(
    Image, url=st.just("https://x.example/a.png")
)
calls = st.builds(ToolCall, id=words, name=words, arguments=objects)
results = st.builds(ToolResult, call_id=words, parts=st.lists(texts, max_size=2).map(tuple), failed=st.booleans())
asked_turns = st.builds(Turn, st.just("user"), st.lists(texts | images, min_size=1, max_size=3).map(tuple))
said_turns = st.builds(
    lambda said, called: Turn("assistant", (*said, *called)),
    st.lists(texts, max_size=2),
    st.lists(calls, min_size=1, max_size=2),
)
told_turns = st.builds(Turn, st.just("tool"), st.lists(results, min_size=1, max_size=2).map(tuple))
turns = st.lists(asked_turns | said_turns | told_turns, min_size=1, max_size=4).filter(
    lambda some: some[-1].role != "assistant" and all(a.role != b.role for a, b in pairwise(some))
)
systems = st.lists(texts, max_size=2).map(lambda parts: [Turn("system", tuple(parts))] if parts else [])
tools = st.lists(st.builds(Tool, words, st.none() | words, objects, st.none() | st.booleans()), max_size=2)
choices = st.none() | st.sampled_from([ToolChoice("auto"), ToolChoice("required"), ToolChoice("tool", "f")])
conversations = st.builds(
    Conversation,
    messages=st.builds(lambda system, some: (*system, *some), systems, turns),
    tools=tools.map(tuple),
    tool_choice=choices,
    parallel_tools=st.none(),
    sampling=st.builds(
        Sampling,
        temperature=st.none() | st.floats(0, 1),
        top_p=st.none() | st.floats(0, 1),
        top_k=st.none() | st.integers(1, 9),
    ),
    stop=st.lists(words, max_size=2).map(tuple),
    max_tokens=st.integers(1, 99),
    effort=st.none() | st.sampled_from(["none", "low", "high"]),
    user=st.none() | st.tuples(st.just("metadata.user_id"), words),
    tier=st.none() | st.sampled_from(["auto", "default"]),
)


def bare(asked: Conversation) -> Conversation:
    """The same without what only tells where a thing came from; who called a tool is known by the call's id."""

    def part(given: Any) -> Any:
        if isinstance(given, ToolResult):
            inner = tuple(part(one) for one in given.parts)
            return msgspec.structs.replace(given, path="", name=None, parts=inner)
        return given if isinstance(given, Text) else msgspec.structs.replace(given, path="")

    told: list[Turn] = []
    for message in asked.messages:
        turn = Turn(message.role, tuple(part(one) for one in message.parts))
        if told and told[-1].role == turn.role == "tool":  # chat completions tell each result on its own
            turn = Turn("tool", (*told.pop().parts, *turn.parts))
        told.append(turn)
    user = None if asked.user is None else ("", asked.user[1])
    return msgspec.structs.replace(asked, messages=tuple(told), user=user)


@unhurried
@given(conversations)
def test_a_request_written_as_messages_reads_back_the_same(asked: Conversation) -> None:
    raw = write_request(asked, SENT)
    parse_body(raw, Terms(version=VERSIONS[0]))
    assert bare(read_conversation(raw)) == bare(asked)


@unhurried
@given(conversations)
def test_a_request_written_as_chat_reads_back_the_same_or_is_refused(asked: Conversation) -> None:
    if any(getattr(part, "failed", False) for turn in asked.messages for part in turn.parts):
        with pytest.raises(InvalidRequest, match=r"is_error: "):
            write_chat(asked, SENT)
    else:
        assert bare(read_chat(write_chat(asked, SENT))) == bare(asked)


answers = st.builds(
    lambda thought, said, called: (*([Thought(thought)] if thought else []), *([Text(said)] if said else []), *called),
    st.none() | words,
    st.none() | words,
    st.lists(calls, max_size=2, unique_by=lambda call: call.id),
)
usages = st.builds(
    lambda given, read, made, thought: Usage(given + read, read, made + thought, thought),
    *[st.integers(0, 99)] * 4,
)


@unhurried
@given(answers, usages)
def test_an_answer_survives_from_chat_to_messages(parts: tuple[Any, ...], usage: Usage) -> None:
    finish: Any = "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    answer = Completion("msg_1", (Choice(parts, finish),), usage)
    told = read_completion(write_completion(answer, NAMED))
    assert told == answer
    written = write_message(told, NAMED)
    Message.model_validate_json(written)
    back = read_message(written)
    assert back == msgspec.structs.replace(
        answer, choices=(Choice(tuple(Thought(p.text, "") if isinstance(p, Thought) else p for p in parts), finish),)
    )


def cut(text: str) -> list[str]:
    return [part for part in (text[: len(text) // 2], text[len(text) // 2 :]) if part]


def pieces_of(parts: tuple[Any, ...], finish: Any) -> list[Piece]:
    pieces: list[Piece] = []
    called = 0
    for part in parts:
        if isinstance(part, ToolCall):
            arguments = msgspec.json.encode(part.arguments).decode()
            pieces += [CallStart(0, called, part.id, part.name), *(CallPiece(0, called, one) for one in cut(arguments))]
            called += 1
        elif isinstance(part, Thought):
            pieces += [ThoughtPiece(0, one) for one in cut(part.text)]
        else:
            pieces += [TextPiece(0, one) for one in cut(part.text)]
    return [*pieces, End(0, finish)]


@unhurried
@given(answers, usages, st.integers(3, 200))
def test_a_stream_says_what_the_whole_answer_says(parts: tuple[Any, ...], usage: Usage, size: int) -> None:
    """From pieces to chunks, to pieces, to events, to pieces: wherever the bytes are cut."""
    finish: Any = "tool_calls" if any(isinstance(part, ToolCall) for part in parts) else "stop"
    pieces = pieces_of(parts, finish)
    chunks = Chunks(NAMED, show_usage=True)
    raw = chunks.write(pieces, "msg_1") + chunks.finish(usage)
    chat = ChatPieces("seed")
    told = [piece for at in range(0, len(raw), size) for piece in chat.feed(raw[at : at + size])]
    assert (told, chat.usage, chat.done, chat.error) == (pieces, usage, True, None)
    writer = MessageEvents(NAMED)
    raw = writer.write(told, chat.id) + writer.finish(chat.usage)
    for event in raw.removesuffix(b"\n\n").split(b"\n\n"):
        if not event.startswith(b"event: ping"):
            EVENTS.validate_json(event.partition(b"\ndata: ")[2])
    reader, passed = MessageReader(), MessageStream("caller")
    back = [piece for at in range(0, len(raw), size) for piece in reader.feed(raw[at : at + size])]
    assert [piece for piece in back if not isinstance(piece, CallPiece) or piece.text] == pieces
    assert (reader.usage, reader.done, reader.id) == (usage, True, "msg_1")
    out = b"".join(event for at in range(0, len(raw), size) for event in passed.feed(raw[at : at + size]))
    assert out.count(b"\n\n") == raw.count(b"\n\n")
    assert out.replace(b'"model":"caller"', b'"model":"m"').partition(b"\n\n")[2] == raw.partition(b"\n\n")[2]
    assert (passed.usage, passed.done, passed.error) == (usage, True, None)


MEMBERS = [
    "model",
    "messages",
    "system",
    "max_tokens",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "metadata",
    "stop_sequences",
    "temperature",
    "top_k",
    "service_tier",
    "stream",
]
pieces = st.sampled_from(
    ["text", "image", "user", "assistant", "tool_use", "tool_result", "thinking", "base64", "auto", "tool", "enabled"]
)
keys = st.sampled_from(
    ["type", "role", "content", "text", "source", "name", "input", "id", "tool_use_id", "data", "input_schema", "url"]
)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | pieces | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | words, inner, max_size=4),
    max_leaves=12,
)
content = st.lists(st.dictionaries(keys, odd, max_size=4), max_size=3) | words
messages = st.lists(st.fixed_dictionaries({"role": pieces, "content": content | odd}), max_size=3) | odd


@unhurried
@given(st.dictionaries(st.sampled_from(MEMBERS) | words, odd, max_size=5), messages, st.sampled_from(VERSIONS))
def test_an_odd_request_is_read_or_refused(members: dict[str, Any], messages: Any, version: str) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": messages, **members}
    raw, terms = msgspec.json.encode(body), Terms(version=version)
    for check in (parse_body, parse_count):
        with contextlib.suppress(InvalidRequest):
            check(raw, terms)
    with contextlib.suppress(InvalidRequest):
        check_batch_body(json.loads(raw), terms)
    with contextlib.suppress(InvalidRequest):
        parse_body(raw, terms)
        asked = read_conversation(raw)
        with contextlib.suppress(InvalidRequest):
            write_request(asked, SENT)
        write_chat(asked, SENT)


@unhurried
@given(odd | st.dictionaries(st.sampled_from(["type", "choices", "message", "delta", "error", "usage", "id"]), odd))
def test_an_odd_answer_is_read_or_malformed(answer: Any) -> None:
    raw = msgspec.json.encode(answer)
    with contextlib.suppress(MalformedAnswer):
        pass_answer(raw, "m")
    with contextlib.suppress(ValueError):
        read_completion(raw)
    for events in (ChatPieces("seed"), MessageStream("m")):
        events.feed(b"data: " + raw + b"\n\n")
        events.close()


LIMITS = Limits(messages=2, content_parts=3, tools=2, stop_sequences=2)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"messages": [{"role": "user", "content": "x"}] * 3}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 2}] * 2}, "messages[].content"),
        ({"tools": [{}] * 3}, "tools"),
        ({"stop_sequences": ["x"] * 3}, "stop_sequences"),
        ({"system": [{}] * 4}, "system"),
    ],
)
def test_each_limit_holds(members: dict[str, Any], named: str) -> None:
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], **members}
    parse_body(msgspec.json.encode(body), Terms(version=VERSIONS[0]))
    with pytest.raises(InvalidRequest) as told:
        parse_body(msgspec.json.encode(body), Terms(LIMITS, VERSIONS[0]))
    assert told.value.param == named
