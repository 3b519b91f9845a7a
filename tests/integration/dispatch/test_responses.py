"""Responses served by other vendors' APIs, and chat completions by a server that speaks nothing but Responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.vendors import Given, Vendor, sse

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.values import Target, Usage
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, Call, Failed, is_retryable, speaks_ill, trips
from ebbtide.dispatch.send import Sender
from ebbtide.dispatch.streaming import Streaming

PICTURE: Final = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}
LOOK: Final = [{"role": "user", "content": [PICTURE]}]
TOOL: Final[Any] = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
ANSWER: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-inside",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "hidden words"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Jena"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 7},
}


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as vendor:
        yield vendor


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender)


def model(*routes: Route) -> Model:
    return Model("answers", "chat", routes, max_output_tokens=100)


def anthropic(vendor: Vendor) -> Model:
    return model(Route("a", "anthropic", "claude-inside", vendor.url))


def call(model: Model, target: Target = "responses", **body: Any) -> Call:
    return Call(target, model, msgspec.json.encode({"model": "mine", **body}), "mine", "interactive")


async def response(dispatcher: Dispatcher, asked: Call) -> Response:
    outcome = await dispatcher.call(asked)
    assert isinstance(outcome, Answered), outcome
    return Response.model_validate_json(outcome.body)


async def test_reasoning_and_calls_reach_their_maker_again(vendor: Vendor, dispatcher: Dispatcher) -> None:
    asked: list[Any] = [{"role": "user", "content": "Weather in Jena?"}]
    vendor.script += [Given(ANSWER), Given(ANSWER)]
    first = await response(dispatcher, call(anthropic(vendor), input=asked, tools=[TOOL], instructions="Be brief."))
    assert [item.type for item in first.output] == ["reasoning", "reasoning", "message", "function_call"]
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.input_tokens_details.cached_tokens) == (30, 20)
    output = {"type": "function_call_output", "call_id": "toolu_1", "output": "Rain"}
    asked += [*(item.to_dict() for item in first.output), output]
    await response(dispatcher, call(anthropic(vendor), input=asked, tools=[TOOL]))
    assert vendor.asked[0].body["system"] == [{"type": "text", "text": "Be brief."}]
    _, assistant, user = vendor.asked[1].body["messages"]
    assert assistant == {"role": "assistant", "content": ANSWER["content"]}
    assert user["content"][0] | {"content": None} == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": None,
    }


async def test_a_stream_of_another_vendor_ends_in_the_same_response(vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script += [Given(ANSWER), Given(stream=_streamed(ANSWER))]
    whole = await response(dispatcher, call(anthropic(vendor), input="Hi"))
    async with dispatcher.stream(call(anthropic(vendor), input="Hi", stream=True)) as streaming:
        assert isinstance(streaming, Streaming)
        raw = b"".join([event async for event in streaming.events()])
    last = msgspec.json.decode(raw.rpartition(b"data: ")[2])
    assert last["type"] == "response.completed"
    told = Response.model_validate(last["response"])
    assert (told.id, told.output, told.usage) == (whole.id, whole.output, whole.usage)


def _streamed(answer: dict[str, Any]) -> list[bytes]:
    """A whole message as its events."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**answer, "content": []}}]
    for index, block in enumerate(answer["content"]):
        place = {"type": "content_block_delta", "index": index}
        start = {"type": "content_block_start", "index": index}
        match block["type"]:
            case "text":
                deltas = [{"type": "text_delta", "text": block["text"]}]
                begun = {**block, "text": ""}
            case "thinking":
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
                begun = {**block, "thinking": "", "signature": ""}
            case "tool_use":
                arguments = msgspec.json.encode(block["input"]).decode()
                deltas = [{"type": "input_json_delta", "partial_json": arguments}]
                begun = {**block, "input": {}}
            case _:
                deltas, begun = [], block
        events.append({**start, "content_block": begun})
        events += [{**place, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"delta": {"stop_reason": answer["stop_reason"]}, "usage": answer["usage"]}
    return sse(*events, {"type": "message_delta", **ended}, {"type": "message_stop"}, named=True)


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        ("anthropic", {"reasoning": {"effort": "minimal"}}, "reasoning.effort"),
        ("anthropic", {"text": {"format": {"type": "json_object"}}}, "text.format.type"),
        ("gemini", {"tools": [{**TOOL, "strict": True}]}, "tools[0].strict"),
        ("gemini", {"safety_identifier": "u"}, "safety_identifier"),
        ("gemini", {"input": LOOK}, "input[0].content[0].detail"),
        ("anthropic", {"input": LOOK}, "input[0].content[0].detail"),
        ("gemini", {"parallel_tool_calls": False, "tools": [TOOL]}, "parallel_tool_calls"),
        (
            "anthropic",
            {"input": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Late"}]},
            "input[1].role",
        ),
    ],
)
async def test_a_refusal_names_the_field_as_the_caller_does(
    vendor: Vendor, dispatcher: Dispatcher, kind: Any, body: dict[str, Any], path: str
) -> None:
    asked = model(Route("r", kind, "inside", vendor.url))
    failed = await dispatcher.call(call(asked, **{"input": "Hi", **body}))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.param, failed.upstream_code) == ("unsupported", path, "unsupported_parameter")
    assert failed.message.startswith(f"{path}: ")
    assert vendor.asked == []


async def test_a_chat_reaches_a_server_that_speaks_nothing_but_responses(dispatcher: Dispatcher) -> None:
    async with FakeUpstream() as upstream:
        only = model(Route("o", "openai", "inside", upstream.url, speaks=("responses",)))
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        whole = await dispatcher.call(call(only, "chat", messages=messages, max_tokens=9))
        assert isinstance(whole, Answered)
        completion = ChatCompletion.model_validate_json(whole.body)
        assert (completion.model, completion.choices[0].message.content) == ("mine", "native answer to Hi")
        assert whole.usage == Usage(11, 3, 7, 2)
        async with dispatcher.stream(call(only, "chat", messages=messages, stream=True)) as streaming:
            assert isinstance(streaming, Streaming)
            frames = b"".join([event async for event in streaming.events()]).split(b"\n\n")[:-2]
        chunks = [ChatCompletionChunk.model_validate_json(frame.removeprefix(b"data: ")) for frame in frames]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "native answer to Hi"
        assert {sent.path for sent in upstream.requests} == {"/v1/responses"}
        assert upstream.requests[0].json == {
            "model": "inside",
            "input": [
                {"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
                {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            ],
            "max_output_tokens": 9,
            "store": False,
        }
        upstream.script.append(Behaviour("error200", message="Out of order"))
        failed = await dispatcher.call(call(only, "chat", messages=messages))
        assert isinstance(failed, Failed)
        assert failed.message == "Out of order"


async def test_arguments_that_are_no_json_come_as_the_model_wrote_them(vendor: Vendor, dispatcher: Dispatcher) -> None:
    called = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": Jena'}}
    message = {"role": "assistant", "content": None, "tool_calls": [called]}
    tokens = {"prompt_tokens": 5, "completion_tokens": 3}
    given = Given({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": tokens})
    vendor.script += [given, given]
    plain = model(Route("p", "openai", "inside", vendor.url))
    told = await response(dispatcher, call(plain, input="Weather?", tools=[TOOL]))
    assert [(item.type, getattr(item, "arguments", None)) for item in told.output] == [
        ("function_call", '{"city": Jena')
    ]
    # The Messages API has objects alone: the answer cannot be told, which is neither the server's fault nor free.
    asked = call(plain, "messages", max_tokens=9, messages=[{"role": "user", "content": "Weather?"}])
    outcome = await dispatcher.call(asked)
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.status, outcome.usage) == ("unsayable", 502, Usage(5, 0, 3, 0))
    assert outcome.message == "The model called the tool weather with arguments that are not a JSON object"
    assert (trips(outcome), speaks_ill(outcome), is_retryable(outcome)) == (False, False, False)
