"""The Responses API's codec: what it takes and refuses, what it writes in the official SDK's own types, and back."""

from __future__ import annotations

import contextlib
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from tests.pieces import pieces_of

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    End,
    Format,
    Image,
    Message,
    Named,
    Piece,
    Sampling,
    Text,
    TextPiece,
    Thought,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from ebbtide.dialects.openai.responses_api.answers import asked, write_response
from ebbtide.dialects.openai.responses_api.checks import check_independent, check_responses
from ebbtide.dialects.openai.responses_api.items import read_input
from ebbtide.dialects.openai.responses_api.passing import PassedEvents, pass_answer, usage_of, without_store
from ebbtide.dialects.openai.responses_api.requests import read_request
from ebbtide.dialects.openai.responses_api.stream import Events
from ebbtide.dialects.values import Usage
from ebbtide.errors import InvalidRequest, UpstreamFailed

encode = msgspec.json.encode
NAMED = Named("m", 5)
PNG = "data:image/png;base64,AAAA"
EVENTS = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}
USAGE = Usage(10, 4, 6, 2, 1)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(
    ToolCall,
    id=texts,
    name=texts,
    arguments=st.dictionaries(texts, values, max_size=3),
    signature=st.none() | texts,
)
thoughts = st.builds(Thought, text=texts, signature=st.none() | texts) | st.builds(Thought, redacted=texts)
answers = st.lists(st.builds(Text, texts) | calls | thoughts, min_size=1, max_size=5)


def read(**members: Any) -> Any:
    return read_request(encode({"model": "m", "input": "Hi", **members}))


def test_every_member_with_a_place_is_taken_over() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked = read(
        instructions="Be brief.",
        input=[
            {"role": "developer", "content": "In French."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What is this?"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": PNG, "detail": "high"}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}", "status": "completed"},
            {"type": "function_call_output", "call_id": "c1", "output": "A cat"},
            {
                "type": "function_call_output",
                "call_id": "c2",
                "output": [{"type": "input_text", "text": "A "}, {"type": "input_text", "text": "dog"}],
            },
        ],
        tools=[{"type": "function", "name": "look", "description": "Looks", "parameters": schema, "strict": True}],
        tool_choice={"type": "function", "name": "look"},
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}, "verbosity": "medium"},
        metadata={"job": "7"},
        safety_identifier="u1",
        service_tier="default",
        include=["reasoning.encrypted_content"],
        truncation="disabled",
        store=False,
        background=False,
        stream=True,
        stream_options={"include_obfuscation": False},
        top_logprobs=0,
        previous_response_id=None,
    )
    assert [(turn.role, turn.parts) for turn in asked.messages] == [
        ("system", (Text("Be brief."),)),
        ("system", (Text("In French."),)),
        ("user", (Text("What is this?"),)),
        ("user", (Image("image/png", "AAAA", detail="high", path="input[2].content[0].image_url"),)),
        (
            "assistant",
            (ToolCall("c1", "look", {"at": 1}, path="input[3]"), ToolCall("c2", "look", {}, path="input[4]")),
        ),
        ("tool", (ToolResult("c1", (Text("A cat"),), "look", path="input[5].call_id"),)),
        ("tool", (ToolResult("c2", (Text("A "), Text("dog")), "look", path="input[6].call_id"),)),
    ]
    assert asked.tools == (Tool("look", "Looks", schema, strict=True),)
    assert asked.tool_choice == ToolChoice("tool", "look")
    assert asked.parallel_tools is False
    assert asked.sampling == Sampling(temperature=0.5, top_p=0.9)
    assert (asked.max_tokens, asked.effort, asked.format) == (100, "low", Format(schema, "n", strict=True))
    assert (asked.user, asked.tier) == (("safety_identifier", "u1"), "default")


REFUSED = [
    ({"top_k": 4}, "top_k"),
    ({"prompt_cache_key": "k"}, "prompt_cache_key"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"max_tool_calls": 3}, "max_tool_calls"),
    ({"moderation": {"model": "m"}}, "moderation"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"truncation": "auto"}, "truncation"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
    ({"reasoning": {"generate_summary": "auto"}}, "reasoning.generate_summary"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": "f", "output_schema": {"a": 1}}]}, "tools[0].output_schema"),
    ({"tools": [{"type": "function", "name": "f", "defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice.type"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0].type"),
    ({"input": [{"role": "critic", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "assistant", "content": "x", "phase": "commentary"}]}, "input[0].phase"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PNG, "detail": "original"}]}]}, None),
    ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}]}, "input[0].encrypted_content"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "[]"}]}, "input[0].arguments"),
    ({"input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]}]}, "input[0].content[0].type"),
]


@pytest.mark.parametrize(("members", "path"), REFUSED)
def test_what_has_no_place_is_refused_by_its_path(members: dict[str, Any], path: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**members)
    assert refused.value.param == (path or "input[0].content[0].detail")


KEPT = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"store": True}, "store"),
    ({"background": True}, "background"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]}, "input[0].content[0].file_id"),
    ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "tools[0].container"),
    ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "tools[0].vector_store_ids"),
    (
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]},
        "tools[0].container.file_ids",
    ),
    ({"input": [{"type": "computer_call_output", "output": {"file_id": "f"}}]}, "input[0].output.file_id"),
    ({"prompt_cache_options": {"comparison_response_id": "r"}}, "prompt_cache_options.comparison_response_id"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"content": "x"}]}, "input[0].role"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"metadata": {"a": "b" * 513}}, "metadata"),
    ({"tools": [{"type": "function"}] * 513}, "tools"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}] * 10_001}]}, "input[].content"),
]


@pytest.mark.parametrize(("members", "path"), KEPT)
def test_what_names_something_kept_is_refused_wherever_it_goes(members: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_responses({"model": "m", "input": "Hi", **members})
    assert refused.value.param == path


def test_the_callers_own_words_may_say_anything() -> None:
    schema = {"type": "object", "properties": {"file_id": {"type": "string"}, "container": "x"}}
    check_responses(
        {
            "model": "m",
            "input": [
                {"type": None, "role": "user", "content": "file_id", "id": "msg_1"},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"file_id": "x"}'},
            ],
            "tools": [{"type": "function", "name": "f", "parameters": schema}],
            "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}},
            "metadata": {"file_id": "x"},
        }
    )


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "mcp_call", "id": "m"}]}, "input[0].type"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "d"}]}]},
            "input[0].content[0].type",
        ),
    ],
)
def test_a_batch_takes_independent_requests_alone(members: dict[str, Any], path: str) -> None:
    body = {"model": "m", "input": "Hi", **members}
    check_responses(body)  # online it may pass
    with pytest.raises(InvalidRequest) as refused:
        check_independent(body)
    assert refused.value.param == path


def test_an_answer_says_what_the_request_said_and_what_it_used() -> None:
    body = encode(
        {
            "model": "m",
            "input": "Hi",
            "instructions": "Be brief.",
            "metadata": {"job": "7"},
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
            "temperature": 0.5,
        }
    )
    parts = (Thought("Hm", "sig"), Text("He"), Text("llo"), ToolCall("c1", "f", {"a": "\u2028"}))
    written = write_response(Completion("up-1", (Choice(parts, "tool_calls"),), USAGE), asked(body, NAMED))
    assert b"\xe2\x80\xa8" not in written
    told = Response.model_validate_json(written, strict=False)
    assert (told.status, told.model, told.created_at, told.output_text) == ("completed", "m", 5, "Hello")
    assert (told.instructions, told.metadata, told.temperature) == ("Be brief.", {"job": "7"}, 0.5)
    assert [item.type for item in told.output] == ["reasoning", "message", "function_call"]
    assert told.usage is not None
    assert (told.usage.input_tokens, told.usage.output_tokens, told.usage.total_tokens) == (10, 6, 16)
    assert (told.usage.input_tokens_details.cached_tokens, told.usage.output_tokens_details.reasoning_tokens) == (4, 2)
    assert len({told.id, *(item.id for item in told.output)}) == 4
    cut = msgspec.json.decode(
        write_response(Completion("up-1", (Choice((Text("He"),), "length"),), None), asked(body, NAMED))
    )
    assert (cut["status"], cut["incomplete_details"], cut["usage"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
        None,
    )
    assert cut["output"][0]["status"] == "incomplete"


@given(answers)
def test_an_answer_survives_being_written_and_read_back(parts: list[Any]) -> None:
    body = encode({"model": "m", "input": "Hi"})
    written = write_response(Completion("id", (Choice(tuple(parts), "stop"),), USAGE), asked(body, NAMED))
    assert merged(back_of(msgspec.json.decode(written))) == merged(parts)


def back_of(response: Any) -> list[Any]:
    turns = read_input(response["output"])
    assert {turn.role for turn in turns} == {"assistant"}
    return [plain(part) for turn in turns for part in turn.parts]


def plain(part: Any) -> Any:
    return msgspec.structs.replace(part, path="") if hasattr(part, "path") else part


def merged(parts: list[Any]) -> list[Any]:
    """Texts that follow one another as one."""
    out: list[Any] = []
    for part in parts:
        if isinstance(part, Text) and out and isinstance(out[-1], Text):
            out[-1] = Text(out[-1].text + part.text)
        else:
            out.append(part)
    return out


def events_of(raw: bytes) -> list[Any]:
    events = []
    for number, event in enumerate(raw.split(b"\n\n")[:-1]):
        name, data = event.split(b"\n")
        said = msgspec.json.decode(data.removeprefix(b"data: "))
        assert name == b"event: " + said["type"].encode()
        assert said["sequence_number"] == number
        EVENTS[said["type"]].model_validate(said)
        events.append(said)
    return events


@given(answers)
def test_a_stream_ends_in_the_answer_that_its_deltas_tell(parts: list[Any]) -> None:
    body = encode({"model": "m", "input": "Hi"})
    writer = Events(asked(body, NAMED))
    raw = b"".join(writer.write([piece], "id") for piece in pieces_of(parts)) + writer.finish(USAGE)
    events = events_of(raw)
    assert [events[0]["type"], events[1]["type"]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] == "response.completed"
    final = events[-1]["response"]
    whole = Completion("id", (Choice(tuple(merged(parts)), "stop"),), USAGE)
    assert merged(back_of(final)) == merged(parts)
    assert final == msgspec.json.decode(write_response(whole, asked(body, NAMED)))
    deltas: dict[int, str] = {}
    done: dict[int, Any] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            index = event["output_index"]
            deltas[index] = deltas.get(index, "") + event["delta"]
        if event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
    assert [done[index] for index in sorted(done)] == final["output"]
    for index, item in done.items():
        said = item.get("arguments") or "".join(part["text"] for part in item.get("content", ()))
        assert deltas.get(index, "") == said


def test_a_stream_that_breaks_or_is_cut_short_says_so() -> None:
    body = encode({"model": "m", "input": "Hi"})
    broken = Events(asked(body, NAMED))
    raw = broken.write([TextPiece(0, "Hel")], "id") + broken.fail(UpstreamFailed("It broke", status=502), "req_1")
    (*_, last) = events_of(raw)
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "server_error", "message": "It broke"}
    assert last["response"]["output"][0]["content"][0]["text"] == "Hel"
    cut = Events(asked(body, NAMED))
    raw = cut.write([TextPiece(0, "Hel"), End(0, "length")], "id") + cut.finish(None)
    (*_, last) = events_of(raw)
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_calls_side_by_side_keep_their_own_arguments() -> None:
    writer = Events(asked(encode({"model": "m", "input": "Hi"}), NAMED))
    pieces: list[Piece] = [
        CallStart(0, 0, "c0", "f"),
        CallPiece(0, 0, '{"a"'),
        CallStart(0, 1, "c1", "g"),
        CallPiece(0, 1, "{}"),
        CallPiece(0, 0, ":1}"),
        End(0, "tool_calls"),
    ]
    (*_, last) = events_of(writer.write(pieces, "id") + writer.finish(None))
    assert [(item["call_id"], item["arguments"]) for item in last["response"]["output"]] == [
        ("c0", '{"a":1}'),
        ("c1", "{}"),
    ]


def sse(*events: Any) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (said["type"].encode(), encode(said)) for said in events)


UPSTREAM: dict[str, Any] = {
    "id": "resp_u",
    "object": "response",
    "model": "inside",
    "output": [],
    "status": "completed",
}


def test_an_upstreams_own_stream_passes_with_the_callers_name_for_the_model() -> None:
    delta = {"type": "response.output_text.delta", "sequence_number": 1, "delta": 'say "response"', "more": 1}
    usage = {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    raw = sse(
        {"type": "response.created", "sequence_number": 0, "response": UPSTREAM},
        delta,
        {"type": "response.completed", "sequence_number": 2, "response": {**UPSTREAM, "usage": usage}},
    )
    whole = PassedEvents("mine")
    passed = b"".join([*whole.feed(raw + b"data: [DONE]\n\n"), *whole.close()])
    assert b"inside" not in passed
    assert encode(delta) in passed
    assert passed.count(b'"model":"mine"') == 2
    assert (whole.done, whole.error, whole.usage) == (True, None, Usage(9, 2, 3, 0))
    cut = PassedEvents("mine")
    told = b"".join(part for at in range(0, len(raw), 7) for part in cut.feed(raw[at : at + 7]))
    assert told == passed


@pytest.mark.parametrize(
    ("event", "message", "status"),
    [
        (
            {"type": "response.failed", "response": {**UPSTREAM, "error": {"code": "server_error", "message": "Oh"}}},
            "Oh",
            502,
        ),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down", "param": None}, "Slow down", 429),
        ({"type": "error", "error": {"message": "Boom"}}, "Boom", 502),
    ],
)
def test_an_upstreams_failure_is_not_passed_on_and_the_end_is_the_gateways(
    event: dict[str, Any], message: str, status: int
) -> None:
    stream = PassedEvents("mine")
    created = sse({"type": "response.created", "sequence_number": 0, "response": UPSTREAM})
    passed = stream.feed(created + sse({"sequence_number": 1, **event}))
    assert len(passed) == 1
    assert stream.error is not None
    assert (stream.error.message, stream.status, stream.done) == (message, status, False)
    last = msgspec.json.decode(stream.fail(UpstreamFailed("Safe", status=429), "req_1").split(b"data: ")[1])
    assert last["sequence_number"] == 1
    assert last["response"]["model"] == "mine"
    assert last["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Safe"}


def test_a_request_leaves_nothing_at_its_upstream() -> None:
    assert msgspec.json.decode(without_store(b'{"model":"m","input":"x"}')) == {
        "model": "m",
        "input": "x",
        "store": False,
    }
    said = b'{"store": false,"model":"m","input":1.50}'
    assert without_store(said) == said


def test_a_response_that_waits_is_no_answer() -> None:
    for status, is_error in (("queued", True), ("in_progress", True), ("completed", False), ("incomplete", False)):
        assert (pass_answer(encode({**UPSTREAM, "status": status}), "mine").error is not None) is is_error
    named = pass_answer(encode({**UPSTREAM, "usage": {"input_tokens": 9, "output_tokens": 3}}), "mine")
    assert msgspec.json.decode(named.body)["model"] == "mine"
    assert named.usage == Usage(9, 0, 3, 0)
    failed = pass_answer(encode({**UPSTREAM, "error": {"code": "server_error", "message": "Oh"}}), "mine")
    assert failed.error is not None
    assert failed.error.message == "Oh"
    assert usage_of({"input_tokens": 1}) is None
    assert usage_of({"input_tokens": 1, "output_tokens": True}) is None


odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | texts
    | st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "input_text", "user", PNG]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "text", "call_id", "output", "name", "arguments", "id", "summary", "format"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
MEMBERS = ["tools", "tool_choice", "text", "reasoning", "include", "metadata", "instructions", "stream_options", "user"]


@given(st.dictionaries(st.sampled_from(MEMBERS), odd, max_size=4), odd)
def test_an_odd_request_is_read_or_refused(members: dict[str, Any], items: Any) -> None:
    body = {"model": "m", "input": items, **members}
    with contextlib.suppress(InvalidRequest):
        check_responses(body)
        check_independent(body)
        with contextlib.suppress(InvalidRequest):
            read_request(encode(body))
        asked(encode(body), NAMED)


@given(
    st.lists(odd | st.dictionaries(st.sampled_from(["type", "response", "error", "usage", "code"]), odd), max_size=3)
)
def test_an_odd_stream_passes_or_is_malformed(events: list[Any]) -> None:
    stream = PassedEvents("mine")
    for said in events:
        stream.feed(b"data: " + encode(said) + b"\n\n")
    stream.close()
    stream.fail(UpstreamFailed("y", status=500), "req_1")


def test_a_turn_of_the_assistant_is_one_message() -> None:
    turns = read_input(
        [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]},
            {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]},
            {"role": "assistant", "content": "B"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
            {"type": "function_call_output", "call_id": "c", "output": "1"},
        ]
    )
    assert [(turn.role, len(turn.parts)) for turn in turns] == [
        ("user", 1),
        ("assistant", 2),
        ("assistant", 2),
        ("tool", 1),
    ]
    assert turns[2] == Message("assistant", (Text("B"), ToolCall("c", "f", {}, path="input[4]")), "input[3]")
