"""Translations over the neutral form, by property: what a source says is neither lost nor invented, and whatever
comes in raises nothing but InvalidRequest.
"""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dialects.anthropic import requests as anthropic_requests
from ebbtide.dialects.anthropic import responses as anthropic_responses
from ebbtide.dialects.anthropic.stream import MessageEvents
from ebbtide.dialects.conversation import Choice, Completion, Named, Sent, Text, ToolCall
from ebbtide.dialects.gemini import requests as gemini_requests
from ebbtide.dialects.gemini import responses as gemini_responses
from ebbtide.dialects.gemini.stream import GeneratedEvents
from ebbtide.dialects.openai.completions import write_completion
from ebbtide.dialects.openai.conversation import read_conversation, read_embed
from ebbtide.dialects.openai.messages import read_messages
from ebbtide.errors import InvalidRequest

SENT = Sent("inside", "2023-06-01", 100)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)
calls = st.builds(ToolCall, id=texts, name=texts, arguments=objects, signature=st.none() | texts)
answers = st.lists(st.builds(Text, texts) | calls, max_size=4)

MEMBERS = [
    "messages",
    "tools",
    "tool_choice",
    "response_format",
    "stop",
    "n",
    "seed",
    "user",
    "temperature",
    "stream_options",
    "reasoning_effort",
    "max_tokens",
    "parallel_tool_calls",
    "service_tier",
    "logit_bias",
]
pieces = st.sampled_from(
    ["text", "function", "image_url", "user", "assistant", "tool", "json_schema", "data:image/png;base64,AAAA", "{}"]
)
keys = st.sampled_from(
    ["type", "role", "content", "text", "function", "name", "arguments", "tool_calls", "id", "image_url", "url"]
)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | pieces | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | texts, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(answers.filter(bool), min_size=1, max_size=3))
def test_an_answer_survives_being_written_and_read_back(choices: list[list[Any]]) -> None:
    answer = Completion("id", tuple(Choice(tuple(parts), "stop") for parts in choices), None)
    written = msgspec.json.decode(write_completion(answer, Named("m", 1)))
    for parts, choice in zip(choices, written["choices"], strict=True):
        (message,) = read_messages([choice["message"]])
        assert "".join(part.text for part in message.parts if isinstance(part, Text)) == "".join(
            part.text for part in parts if isinstance(part, Text)
        )
        back = [msgspec.structs.replace(part, path="") for part in message.parts if isinstance(part, ToolCall)]
        assert back == [part for part in parts if isinstance(part, ToolCall)]


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts), min_size=1, max_size=5), texts, objects)
def test_every_word_of_a_request_arrives(turns: list[tuple[str, str]], system: str, schema: dict[str, Any]) -> None:
    body = {
        "model": "m",
        "messages": [{"role": "system", "content": system}, *({"role": r, "content": t} for r, t in turns)],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
    }
    asked = read_conversation(msgspec.json.encode(body))
    said = msgspec.json.decode(anthropic_requests.write_request(asked, SENT))
    assert [(turn["role"], turn["content"][0]["text"]) for turn in said["messages"]] == turns
    assert (said["system"][0]["text"], said["tools"][0]["input_schema"]) == (system, schema)
    told = msgspec.json.decode(gemini_requests.write_request(asked))
    roles = {"user": "user", "assistant": "model"}
    assert [(turn["role"], turn["parts"][0]["text"]) for turn in told["contents"]] == [(roles[r], t) for r, t in turns]
    assert told["systemInstruction"] == {"parts": [{"text": system}]}
    assert told["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == schema


@given(st.dictionaries(st.sampled_from(MEMBERS) | texts, odd, max_size=5), odd)
def test_an_odd_request_is_written_or_refused(members: dict[str, Any], messages: Any) -> None:
    raw = msgspec.json.encode({"model": "m", "messages": messages, **members})
    with contextlib.suppress(InvalidRequest):
        asked = read_conversation(raw)
        with contextlib.suppress(InvalidRequest):
            msgspec.json.decode(anthropic_requests.write_request(asked, SENT))
        msgspec.json.decode(gemini_requests.write_request(asked))
    with contextlib.suppress(InvalidRequest):
        read_embed(msgspec.json.encode({"model": "m", "input": messages, **members}))


@given(odd | st.dictionaries(st.sampled_from(["type", "message", "delta", "candidates", "error", "usage"]), odd))
def test_an_odd_answer_is_read_or_malformed(answer: Any) -> None:
    raw = msgspec.json.encode(answer)
    for read in (anthropic_responses.read_message, gemini_responses.read_generated, gemini_responses.read_vectors):
        with contextlib.suppress(ValueError):
            read(raw)
    anthropic_responses.read_error(raw)
    gemini_responses.read_error(raw)
    for events in (MessageEvents(), GeneratedEvents("seed")):
        events.feed(b"data: " + raw + b"\n\n")
        events.close()


KNOWN_EVENTS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error"]
)


@given(KNOWN_EVENTS, odd, odd, odd)
def test_an_odd_event_ends_the_stream_at_worst(kind: str, first: Any, second: Any, third: Any) -> None:
    event = {"type": kind, "index": first, "delta": second, "message": second, "content_block": third, "error": third}
    events = MessageEvents()
    events.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")
    events.close()
