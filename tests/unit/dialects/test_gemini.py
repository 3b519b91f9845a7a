"""Gemini's form read and written: what a request may say in which spelling, what is refused, streams, batches."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    End,
    Named,
    Sent,
    Text,
    TextPiece,
    Thought,
    ToolCall,
    ToolResult,
)
from ebbtide.dialects.gemini.array import Array
from ebbtide.dialects.gemini.batch import failure, parse_create, parse_line, read_requests
from ebbtide.dialects.gemini.bodies import check_batched, counted, named, parse_count, parse_embeds, parse_generate
from ebbtide.dialects.gemini.completions import Generation, write_generated
from ebbtide.dialects.gemini.conversation import read_conversation
from ebbtide.dialects.gemini.embeddings import read_embed, read_embeds
from ebbtide.dialects.gemini.errors import number_for, render_error, word_for
from ebbtide.dialects.gemini.passing import GenerationStream
from ebbtide.dialects.gemini.schemas import json_schema
from ebbtide.dialects.lines import common_line, line_body
from ebbtide.dialects.targets import SERVERS
from ebbtide.dialects.values import STANDARD, Usage
from ebbtide.errors import InvalidRequest, LimitReached, NotFound

NAMED = Named("mine", 1)


def read(**body: Any) -> Any:
    return read_conversation(json.dumps({"contents": [{"parts": [{"text": "Hi"}]}], **body}).encode())


def test_both_spellings_say_the_same() -> None:
    camel = read(generationConfig={"topP": 0.5, "maxOutputTokens": "9"}, systemInstruction={"parts": [{"text": "S"}]})
    snake = read(
        generation_config={"top_p": 0.5, "max_output_tokens": 9.0}, system_instruction={"parts": [{"text": "S"}]}
    )
    assert camel.max_tokens == snake.max_tokens == 9
    assert camel.sampling == snake.sampling
    assert [message.parts for message in camel.messages] == [message.parts for message in snake.messages]


def test_calls_without_ids_find_their_responses_in_order() -> None:
    def call(city: str) -> Any:
        return {"functionCall": {"name": "weather", "args": {"city": city}}}

    def response(said: Any, **more: Any) -> Any:
        return {"functionResponse": {"name": "weather", "response": said, **more}}

    asked = read(
        contents=[
            {"role": "user", "parts": [{"text": "Both?"}]},
            {"role": "model", "parts": [call("Oslo"), call("Rome")]},
            {"role": "user", "parts": [response({"output": "cold"}), response({"error": {"code": 1}})]},
        ]
    )
    calls = [part for part in asked.messages[1].parts if isinstance(part, ToolCall)]
    results = [part for part in asked.messages[2].parts if isinstance(part, ToolResult)]
    assert asked.messages[2].role == "tool"
    assert [result.call_id for result in results] == [one.id for one in calls]
    assert [(result.text, result.failed) for result in results] == [("cold", False), ('{"code":1}', True)]
    messages = SERVERS["messages"].write_request(msgspec.structs.replace(asked, max_tokens=9), Sent("m"))
    assert json.loads(messages)["messages"][2]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": calls[1].id,
        "content": '{"code":1}',
        "is_error": True,
    }
    chat = json.loads(SERVERS["chat"].write_request(asked, Sent("m")))["messages"]
    assert chat[-1] == {"role": "tool", "tool_call_id": calls[1].id, "content": '{"error":{"code":1}}'}
    told = json.loads(SERVERS["responses"].write_request(asked, Sent("m")))["input"]
    assert told[-1]["output"] == '{"error":{"code":1}}'


def test_a_schema_becomes_a_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "propertyOrdering": ["b", "a"],
        "properties": {
            "a": {"type": "ARRAY", "items": {"type": "INTEGER", "minimum": 1}, "max_items": "3"},
            "b": {"type": "STRING", "enum": ["x"], "format": "enum", "nullable": True},
            "c": {"anyOf": [{"type": "NUMBER"}, {"type": "NULL"}]},
        },
        "required": ["a"],
    }
    written = json_schema("s", schema)
    assert written == {
        "type": "object",
        "properties": {
            "b": {"type": ["string", "null"], "enum": ["x"]},
            "a": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 3},
            "c": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
        "required": ["a"],
    }
    assert list(written["properties"]) == ["b", "a", "c"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (
            {"contents": [{"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]},
            "inline",
        ),
        ({"contents": [{"parts": [{"text": "a", "thought": True}]}]}, "thought"),
        ({"contents": [{"role": "model", "parts": [{"text": "a", "thoughtSignature": "x"}]}]}, "thoughtSignature"),
        ({"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]}]}, "data"),
        ({"contents": [{"parts": [{"executableCode": {}}]}]}, "executableCode"),
        ({"contents": [{"parts": [{"text": "a", "inlineData": {}}]}]}, "parts[0]"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}, "mode"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a", "b"]}}}, "allowed"),
        ({"generationConfig": {"responseSchema": {"type": "STRING"}}}, "responseMimeType"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "responseModalities[0]"),
        ({"generationConfig": {"thinkingConfig": {"thinkingBudget": 0, "thinkingLevel": "LOW"}}}, "thinkingBudget"),
        ({"generationConfig": {"topK": 1.5}}, "topK"),
        ({"safetySettings": [{"category": "C"}]}, "safetySettings[0].threshold"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "response": {"type": "BLOB"}}]}]}, "response.type"),
        (
            {"tools": [{"functionDeclarations": [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]}]},
            "functionDeclarations[0].parameters",
        ),
    ],
)
def test_what_has_no_place_is_refused_by_its_path(body: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(**body)
    assert path in (raised.value.param or "")


WHOLE: Any = {
    "contents": [
        {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBO"}}]},
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "f", "args": {}}}]},
        {"parts": [{"functionResponse": {"id": "a", "name": "f", "response": {}}}]},
    ],
    "systemInstruction": {"parts": [{"text": "s"}]},
    "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {}}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
}
EMBED: Any = {"content": {"parts": [{"text": "x"}]}}
CREATE: Any = {"batch": {"inputConfig": {"requests": {"requests": [{"request": {}, "metadata": {}}]}}}}
FREE = {"args", "response", "properties", "request", "metadata"}  # what is in them is the caller's, or checked later
READERS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "generate": (WHOLE, read_conversation),
    "count": ({"generateContentRequest": WHOLE}, lambda raw: read_conversation(counted(named(raw, "m")))),
    "embed": (EMBED, read_embed),
    "embeds": ({"requests": [EMBED]}, read_embeds),
    "create": (CREATE, lambda raw: list(read_requests(parse_create(raw, 10, "m")))),
}


def objects_in(given: Any) -> Iterator[dict[str, Any]]:
    """Every object in it that has members of the API's own."""
    if isinstance(given, dict):
        yield given
    members = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    for name, value in members:
        if name not in FREE:
            yield from objects_in(value)


@pytest.mark.parametrize("form", READERS)
def test_nothing_is_dropped_wherever_it_stands(form: str) -> None:
    whole, reader = READERS[form]
    reader(json.dumps(whole).encode())
    for number in range(len(list(objects_in(whole)))):
        fuller = copy.deepcopy(whole)
        list(objects_in(fuller))[number]["aMember"] = 1
        with pytest.raises(InvalidRequest):
            reader(json.dumps(fuller).encode())


def test_thinking_and_choice() -> None:
    assert read(generationConfig={"thinkingConfig": {"thinkingBudget": 0}}).effort == "none"
    assert read(generationConfig={"thinkingConfig": {"thinkingBudget": -1}}).thinking_tokens is None
    assert read(generationConfig={"thinkingConfig": {"thinkingBudget": 7}}).thinking_tokens == 7
    tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["b", "a"]}}
    assert read(tools=tools, toolConfig=config).tool_choice.mode == "required"


def test_a_whole_answer() -> None:
    parts = (Thought("Hm."), Text("Hi."), ToolCall("1", "f", {"a": 1}, "sig"))
    answer = Completion("r", (Choice(parts, "tool_calls"), Choice((Text("Yo"),), "content_filter")), Usage(10, 4, 8, 3))
    told = json.loads(write_generated(answer, NAMED, thoughts=True))
    first, second = told["candidates"]
    assert first["content"]["parts"] == [
        {"text": "Hm.", "thought": True},
        {"text": "Hi."},
        {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "sig"},
    ]
    assert (first["finishReason"], second["finishReason"], second["index"]) == ("STOP", "SAFETY", 1)
    assert told["usageMetadata"] == {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "totalTokenCount": 18,
        "cachedContentTokenCount": 4,
        "thoughtsTokenCount": 3,
    }
    hidden = json.loads(write_generated(answer, NAMED, thoughts=False))
    assert hidden["candidates"][0]["content"]["parts"][0] == {"text": "Hi."}
    assert "usageMetadata" not in json.loads(
        write_generated(Completion("r", answer.choices, None), NAMED, thoughts=False)
    )


def test_arguments_that_are_no_json_are_told_as_they_came_whole_and_streamed() -> None:
    called = ToolCall("c1", "f", {}, written="{bad")
    whole = json.loads(
        write_generated(Completion("r", (Choice((called,), "tool_calls"),), None), NAMED, thoughts=False)
    )
    stream = Generation(NAMED, thoughts=False)
    last = stream.write([CallStart(0, 0, "c1", "f"), CallPiece(0, 0, "{bad"), End(0, "tool_calls")], "r")
    call = {"functionCall": {"id": "c1", "name": "f", "args": {"arguments": "{bad"}}}
    assert whole["candidates"][0]["content"]["parts"] == [call]
    assert json.dumps(call["functionCall"]["args"]).replace(" ", "") in last.decode()


def test_a_stream_in_events_and_as_an_array() -> None:
    writer = Generation(NAMED, thoughts=False)
    array = Array()
    events = [
        writer.write([TextPiece(0, "a"), TextPiece(0, "b")], "r"),
        writer.write([CallStart(0, 0, "1", "f"), CallPiece(0, 0, '{"x":')], "r"),
        writer.write([CallPiece(0, 0, "1}"), End(0, "tool_calls")], "r"),
        writer.finish(Usage(1, 0, 2, 0)),
    ]
    assert events[1] == b""  # nothing is whole yet
    told = json.loads(b"".join(array.feed(event) for event in events) + array.close())
    parts = [chunk["candidates"][0]["content"]["parts"] for chunk in told]
    assert parts == [[{"text": "ab"}], [{"functionCall": {"id": "1", "name": "f", "args": {"x": 1}}}], [{"text": ""}]]
    assert told[-1]["candidates"][0]["finishReason"] == "STOP"
    assert told[-1]["usageMetadata"]["totalTokenCount"] == 3
    assert Array().close() == b"[]\n"
    assert json.loads(writer.fail(NotFound("m"), "").removeprefix(b"data: "))["error"]["status"] == "NOT_FOUND"


def test_a_passed_stream_ends_in_its_own_words() -> None:
    whole = b'data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3}}\r\n\r\n'
    stream = GenerationStream("mine")
    assert len(stream.feed(whole)) == 1
    stream.close()
    assert (stream.done, stream.usage) == (True, Usage(3, 0, 0, 0))
    pretty = GenerationStream("mine")
    assert pretty.feed(b'data: {"candidates": [\ndata: ], "modelVersion": "x"}\n\n') == [
        b'data: {"candidates":[],"modelVersion":"mine"}\n\n'
    ]
    cut = GenerationStream("mine")
    cut.feed(b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n')
    cut.close()
    assert not cut.done
    for bad in (b"data: {\n\n", b'data: {"error": {"code": 429, "message": "slow"}}\n\n'):
        failed = GenerationStream("mine")
        assert failed.feed(bad) == []
        assert failed.error is not None
    assert failed.status == 429


def test_counting_takes_a_whole_request_too() -> None:
    inner = {"model": "models/m", "contents": [{"parts": [{"text": "a"}]}]}
    body = named(json.dumps({"generate_content_request": inner}).encode(), "m")
    assert parse_count(body, STANDARD).model == "m"
    assert json.loads(counted(body)) == inner | {"model": "m"}
    with pytest.raises(InvalidRequest, match=r"generate_content_request\.model: is another"):
        parse_count(named(json.dumps({"generate_content_request": inner}).encode(), "n"), STANDARD)


def test_several_texts_want_one_size() -> None:
    def requests(*sizes: int) -> bytes:
        listed = [{"content": {"parts": [{"text": "a"}]}, "outputDimensionality": size} for size in sizes]
        return json.dumps({"model": "m", "requests": listed}).encode()

    assert parse_embeds(requests(4, 4), STANDARD).model == "m"
    assert read_embeds(requests(4, 4)).dimensions == 4
    with pytest.raises(InvalidRequest, match=r"requests\[1\]\.outputDimensionality"):
        read_embeds(requests(4, 5))


def test_lines_of_files_become_common_ones() -> None:
    raw = b'{"key": "k", "request": {"contents": [1e0]}}'
    assert line_body(raw, "m") == b'{"contents":[1e0],"model":"m"}'
    line = json.loads(bytes(common_line(memoryview(raw), "gemini", "m")))
    assert (line["custom_id"], line["url"], line["body"]["model"]) == ("k", "/v1beta/models:generateContent", "m")
    assert bytes(common_line(memoryview(b'{"body":{}}'), "gemini", "m")) == b'{"body":{}}'
    with pytest.raises(InvalidRequest, match="metadata: belongs to inline requests"):
        parse_line(b'{"key": "k", "request": {}, "metadata": {"a": 1}}')


def test_a_failures_code_is_of_google_rpc() -> None:
    told = {400: 3, 404: 5, 409: 9, 410: 5, 418: 3, 429: 8, 499: 1, 500: 13, 501: 12, 502: 14, 503: 14, 504: 4, 529: 14}
    assert {status: failure(status, "").code for status in told} == told


def test_an_error_tells_when_to_come_back_where_that_is_known() -> None:
    status, headers, body = render_error(LimitReached("m", retry_after=29.2), "")
    assert (status, headers["retry-after"]) == (429, "30")
    retry = {"retryDelay": "30s", "@type": "type.googleapis.com/google.rpc.RetryInfo"}
    told = {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}
    assert json.loads(body)["error"] == told | {"details": [retry]}
    assert json.loads(render_error(LimitReached("m"), "")[2])["error"] == told


def test_every_word_for_a_status_has_a_number() -> None:
    words = {status: word_for(status) for status in range(400, 600)}
    assert (words[502], words[529], words[500], words[404]) == ("UNAVAILABLE", "UNAVAILABLE", "INTERNAL", "NOT_FOUND")
    assert all(number_for(status) for status in words)


NAMES = (
    *(
        "contents",
        "parts",
        "text",
        "role",
        "functionCall",
        "functionResponse",
        "inlineData",
        "fileData",
        "name",
        "args",
    ),
    *("id", "response", "tools", "functionDeclarations", "generationConfig", "responseSchema", "responseMimeType"),
    *("thinkingConfig", "toolConfig", "functionCallingConfig", "safetySettings", "threshold", "systemInstruction"),
    *("batch", "inputConfig", "requests", "request", "metadata", "fileName", "displayName", "priority", "model"),
    *("content", "key", "type", "properties"),
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)
TURNS = st.lists(st.fixed_dictionaries({"parts": st.lists(JSON, max_size=2)}, optional={"role": SCALARS}), max_size=3)


@given(JSON, TURNS)
def test_no_body_is_answered_but_by_a_refusal(given: Any, turns: Any) -> None:
    raw = json.dumps(given).encode()
    body = (given if isinstance(given, dict) else {}) | {"contents": turns}
    whole = json.dumps(body).encode()
    for call in (
        lambda: parse_generate(named(whole, "m"), STANDARD),
        lambda: [SERVERS[wire].write_request(read_conversation(whole), Sent("m")) for wire in ("chat", "messages")],
        lambda: SERVERS["gemini"].write_request(read_conversation(whole), Sent("m")),
        lambda: check_batched(body | {"model": "m"}, STANDARD),
        lambda: list(read_requests(parse_create(raw, 10, "m"))),
        lambda: parse_line(raw),
        lambda: parse_embeds(named(raw, "m"), STANDARD),
        lambda: parse_count(named(raw, "m"), STANDARD),
    ):
        with contextlib.suppress(InvalidRequest):
            call()
