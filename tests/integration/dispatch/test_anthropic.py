"""Chat completions served by a Messages API: what is sent, what comes back, what is refused. The vendor's SDK types
check the fake's answers, OpenAI's the gateway's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter
from tests.fake_upstream import FakeUpstream
from tests.vendors import Given, Vendor, sse

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, Call, Failed, Outcome
from ebbtide.dispatch.send import Sender
from ebbtide.dispatch.streaming import Streaming
from ebbtide.errors import UpstreamFailed

USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 5,
    "output_tokens": 7,
    "output_tokens_details": {"thinking_tokens": 3},
}
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-inside",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "text", "text": "Let me look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Jena"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": USAGE,
}
STREAM: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {**ANSWER, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1}},
    },
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "", "citations": None}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"city":'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"Jena"}'}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}},
    },
    {"type": "message_stop"},
]


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as server:
        yield server


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender)


def call(vendor: Vendor, *more: Route, **members: Any) -> Call:
    route = Route(id="a", kind="anthropic", model="claude-inside", base_url=vendor.url, api_keys=("sk-ant",))
    model = Model(id="m", type="chat", routes=(route, *more), max_output_tokens=900)
    body = {"model": "alias", "messages": [{"role": "user", "content": "Weather in Jena?"}], **members}
    return Call("chat", model, msgspec.json.encode(body), "alias", "interactive", asks_usage=True)


async def stream(dispatcher: Dispatcher, asked: Call) -> tuple[list[ChatCompletionChunk], Streaming]:
    async with dispatcher.stream(asked) as opened:
        assert isinstance(opened, Streaming), opened
        raw = b"".join([event async for event in opened.events()])
    *frames, last = raw.removesuffix(b"\n\n").split(b"\n\n")
    assert last == b"data: [DONE]"
    return [ChatCompletionChunk.model_validate_json(frame.removeprefix(b"data: ")) for frame in frames], opened


async def read_to_the_end(opened: Streaming, hold: asyncio.Event) -> None:
    async for _ in opened.events():
        hold.set()


async def test_an_answer_comes_back_as_a_chat_completion(vendor: Vendor, dispatcher: Dispatcher) -> None:
    Message.model_validate(ANSWER)
    vendor.script.append(Given(ANSWER))
    outcome = await dispatcher.call(call(vendor))
    assert isinstance(outcome, Answered)
    completion = ChatCompletion.model_validate_json(outcome.body)
    choice = completion.choices[0]
    assert (completion.model, choice.finish_reason, choice.message.content) == ("alias", "tool_calls", "Let me look.")
    assert choice.message.tool_calls is not None
    made = choice.message.tool_calls[0]
    assert made.type == "function"
    assert (made.id, made.function.name, msgspec.json.decode(made.function.arguments)) == (
        "toolu_1",
        "weather",
        {"city": "Jena"},
    )
    assert msgspec.json.decode(outcome.body)["choices"][0]["message"]["reasoning_content"] == "Hm."
    assert outcome.usage == Usage(35, 20, 7, 3, 5)
    asked = vendor.asked[0]
    assert (asked.path, asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (
        "/v1/messages",
        "sk-ant",
        "2023-06-01",
    )
    assert "authorization" not in asked.headers
    assert (asked.body["model"], asked.body["max_tokens"]) == ("claude-inside", 900)


async def test_a_stream_comes_back_as_chunks(vendor: Vendor, dispatcher: Dispatcher) -> None:
    for event in STREAM:
        if event["type"] != "ping":
            TypeAdapter[Any](RawMessageStreamEvent).validate_python(event)
    raw = b"".join(sse(*STREAM, named=True))
    vendor.script.append(Given(stream=[raw[at : at + 37] for at in range(0, len(raw), 37)]))
    chunks, opened = await stream(dispatcher, call(vendor, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    calls = [made for delta in deltas for made in delta.tool_calls or ()]
    assert (calls[0].id, calls[0].function and calls[0].function.name) == ("toolu_1", "weather")
    arguments = "".join(made.function.arguments or "" for made in calls if made.function)
    assert msgspec.json.decode(arguments) == {"city": "Jena"}
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (35, 7)
    assert opened.usage == Usage(35, 20, 7, 3, 5)
    assert opened.failed is None


async def test_what_the_caller_says_is_said(vendor: Vendor, dispatcher: Dispatcher) -> None:
    vendor.script.append(Given(ANSWER))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    function = {"name": "weather", "description": "Looks out", "parameters": schema}
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "weather", "arguments": f'{{"n":{n}}}'}}
        for n in (1, 2)
    ]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    await dispatcher.call(
        call(
            vendor,
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
                {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
                {"role": "assistant", "content": None, "tool_calls": calls},
                {"role": "tool", "tool_call_id": "c1", "content": "rain"},
                {"role": "tool", "tool_call_id": "c2", "content": "sun"},
                {"role": "user", "content": "Well?"},
            ],
            tools=[{"type": "function", "function": function}],
            tool_choice="required",
            parallel_tool_calls=False,
            max_completion_tokens=50,
            temperature=0.5,
            stop="END",
            reasoning_effort="high",
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
            user="u1",
        )
    )
    image_block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
    }
    assert vendor.asked[0].body == {
        "model": "claude-inside",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look"}, image_block]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": f"c{n}", "name": "weather", "input": {"n": n}} for n in (1, 2)],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "sun"},
                ],
            },
            {"role": "user", "content": [{"type": "text", "text": "Well?"}]},
        ],
        "tools": [{"name": "weather", "description": "Looks out", "input_schema": schema}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": schema}},
        "metadata": {"user_id": "u1"},
    }


@pytest.mark.parametrize(
    ("member", "value", "param"),
    [
        ("n", 2, "n"),
        ("logit_bias", {"1": 2}, "logit_bias"),
        ("seed", 1, "seed"),
        ("logprobs", True, "logprobs"),
        ("frequency_penalty", 0.1, "frequency_penalty"),
        ("response_format", {"type": "json_object"}, "response_format.type"),
        ("reasoning_effort", "minimal", "reasoning_effort"),
        ("future", [1], "future"),
        ("messages", [{"role": "user", "content": "x", "name": "bob"}], "messages[0].name"),
        ("messages", [{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0].type"),
    ],
)
async def test_what_has_no_words_is_refused_by_its_path(
    member: str, value: Any, param: str, vendor: Vendor, dispatcher: Dispatcher
) -> None:
    failed = await dispatcher.call(call(vendor, **{member: value}))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status, failed.param, failed.sent) == ("unsupported", 400, param, False)
    assert failed.message.startswith(param)
    assert vendor.asked == []


async def test_another_route_takes_what_this_one_cannot(vendor: Vendor, dispatcher: Dispatcher) -> None:
    async with FakeUpstream() as able:
        other = Route(id="b", kind="vllm", model="x", base_url=able.url)
        outcomes: list[Outcome] = [await dispatcher.call(call(vendor, other, seed=1)) for _ in range(5)]
    assert [outcome.route for outcome in outcomes if isinstance(outcome, Answered)] == ["b"] * 5
    assert vendor.asked == []


@pytest.mark.parametrize(
    ("status", "kind", "told", "code"),
    [
        (400, "invalid_request_error", 400, "invalid_request"),
        (401, "authentication_error", 401, "upstream_error"),
        (402, "billing_error", 401, "upstream_error"),
        (429, "rate_limit_error", 429, "rate_limited"),
        (529, "overloaded_error", 503, "service_unavailable"),
    ],
)
async def test_errors_keep_their_meaning(
    status: int, kind: str, told: int, code: str, vendor: Vendor, dispatcher: Dispatcher
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": f"claude-inside at {vendor.url} is unwell"}}
    vendor.script.append(Given(body, status, {"retry-after": "3"}))
    failed = await dispatcher.call(call(vendor))
    assert isinstance(failed, Failed)
    assert (failed.status, failed.code, failed.retry_after) == (told, code, 3.0)
    assert "127.0.0.1" not in failed.message
    assert "claude-inside" not in failed.message


async def test_an_error_in_mid_stream_ends_it(vendor: Vendor, dispatcher: Dispatcher) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    hold = asyncio.Event()
    vendor.script.append(Given(stream=sse(*STREAM[:8], error, named=True), hold=hold))
    async with dispatcher.stream(call(vendor, stream=True)) as opened:
        assert isinstance(opened, Streaming)
        with pytest.raises(UpstreamFailed, match="Overloaded") as raised:
            await read_to_the_end(opened, hold)
    assert raised.value.status == 503
    assert opened.usage is None


async def test_a_stream_that_is_cut_is_no_whole_one(vendor: Vendor, dispatcher: Dispatcher) -> None:
    hold = asyncio.Event()
    vendor.script.append(Given(stream=sse(*STREAM[:-1], named=True), hold=hold))
    async with dispatcher.stream(call(vendor, stream=True)) as opened:
        assert isinstance(opened, Streaming)
        with pytest.raises(UpstreamFailed):
            await read_to_the_end(opened, hold)
    assert opened.failed is not None
