"""The Messages API, by Anthropic's own SDK unmodified: untouched to a server that speaks it, translated to one that
speaks chat completions; versions, errors, streams, counts, the list of models, and what takes Message Batches' place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until
from tests.vendors import Given, Vendor, sse

VERSION = {"anthropic-version": "2023-06-01"}
HELLO: dict[str, Any] = {"max_tokens": 64, "messages": [{"role": "user", "content": "Hello there"}]}
TOOL = {"name": "weather", "description": "Tells it", "input_schema": {"type": "object", "properties": {}}}
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-inside",
    "content": [{"type": "text", "text": "Hi.", "citations": None}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 7},
}
STREAM: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]
EVENTS = TypeAdapter[Any](RawMessageStreamEvent)


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as vendor:
        yield vendor


@pytest.fixture
def models(upstream: FakeUpstream, vendor: Vendor, tmp_path: Path) -> Path:
    def at(kind: str, **more: Any) -> list[dict[str, Any]]:
        return [{"id": "r", "kind": kind, "base_url": vendor.url, "model": "claude-inside", **more}]

    return models_file(
        tmp_path,
        chat_model(upstream.url, context_length=9_000, max_output_tokens=500),
        chat_model(name="stand-in"),
        embedding_model(upstream.url),
        {"id": "claude", "max_output_tokens": 100, "routes": at("anthropic", api_key="secret")},
        {"id": "engine", "routes": at("vllm")},
        {"id": "plain", "routes": at("vllm", speaks=["chat"])},
        auto={"auto": ["chat-1"]},
    )


def client_of(gateway: TestGateway, **more: Any) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=gateway.url, api_key=gateway.admin_key, max_retries=0, **more)


@pytest.fixture
async def client(gateway: TestGateway) -> AsyncIterator[AsyncAnthropic]:
    async with client_of(gateway) as client:
        yield client


async def test_a_server_that_speaks_it_gets_the_request_untouched(
    gateway: TestGateway, vendor: Vendor, client: AsyncAnthropic
) -> None:
    vendor.script.append(Given(ANSWER))
    cached = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}
    asked = {"max_tokens": 9, "messages": [{"role": "user", "content": [cached]}], "odd": {"kept": [1.0, 2]}}
    sent = {"model": "claude", **asked}
    headers = VERSION | {"anthropic-beta": "some-beta-2026", "X-Api-Key": gateway.admin_key}
    answer = await gateway.call("POST", "/anthropic/v1/messages", key=None, headers=headers, json=sent)
    assert answer.json == {**ANSWER, "model": "claude"}
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    [came] = vendor.asked
    assert came.body == {"model": "claude-inside", **asked}
    assert (came.path, came.headers["x-api-key"]) == ("/v1/messages", "secret")
    assert (came.headers["anthropic-version"], came.headers["anthropic-beta"]) == ("2023-06-01", "some-beta-2026")

    vendor.script.append(Given(stream=sse(*STREAM, named=True)))
    async with client.messages.stream(model="claude", **HELLO) as stream:
        events = [event.type async for event in stream]
        message = await stream.get_final_message()
    assert [event for event in events if event not in ("text",)] == [
        told["type"] for told in STREAM if told["type"] != "ping"
    ]
    assert (message.model, message.usage.input_tokens, message.usage.output_tokens) == ("claude", 10, 7)
    assert vendor.asked[-1].headers["anthropic-version"] == "2026-10-21"

    vendor.script.append(Given({"input_tokens": 33}))
    counted = await client.messages.count_tokens(model="claude", messages=HELLO["messages"])
    assert counted.input_tokens == 33
    assert vendor.asked[-1].path == "/v1/messages/count_tokens"


async def test_the_log_tells_what_each_cost(gateway: TestGateway, vendor: Vendor, client: AsyncAnthropic) -> None:
    vendor.script += [Given(ANSWER), Given(stream=sse(*STREAM, named=True)), Given({"input_tokens": 33})]
    await client.messages.create(model="claude", **HELLO)
    async with client.messages.stream(model="claude", **HELLO) as stream:
        await stream.get_final_message()
    await client.messages.count_tokens(model="claude", messages=HELLO["messages"])

    async def logged() -> Any:
        async with gateway.database.connection() as conn:
            rows = await conn.fetch("select target, input_tokens, cached_tokens, output_tokens, cost_usd from api_logs")
        return rows if len(rows) == 3 else None

    assert sorted(map(tuple, await until(logged))) == [
        ("count_tokens", 0, 0, 0, 0),
        ("messages", 30, 20, 7, 0),
        ("messages", 30, 20, 7, 0),
    ]


async def test_an_engine_gets_what_it_can_carry_untouched_and_nothing_else(
    vendor: Vendor, client: AsyncAnthropic
) -> None:
    vendor.script.append(Given(ANSWER))
    message = await client.messages.create(model="engine", extra_body={"top_k": 4}, extra_headers=VERSION, **HELLO)
    assert message.model == "engine"
    assert vendor.asked[-1].body == {"model": "claude-inside", **HELLO, "top_k": 4}
    block: Any = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    with pytest.raises(anthropic.BadRequestError, match="messages\\[0\\]\\.content\\[0\\]\\.cache_control: "):
        await client.messages.create(model="engine", max_tokens=1, messages=[{"role": "user", "content": [block]}])
    assert len(vendor.asked) == 1


async def test_chat_completions_behind_messages(upstream: FakeUpstream, client: AsyncAnthropic) -> None:
    asked: dict[str, Any] = {
        "model": "chat-1",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief."}],
        "stop_sequences": ["END"],
        "tools": [TOOL],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "u-1"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, IMAGE]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I ask."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Jena"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sunny"}]},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
    }
    message = await client.messages.create(**asked)
    assert Message.model_validate(message.model_dump()) == message
    assert (message.model, message.role, message.stop_reason) == ("chat-1", "assistant", "end_turn")
    assert message.content[0].type == "text"
    assert message.usage.input_tokens > 0
    assert upstream.requests[-1].json == {
        "model": "chat-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            {
                "role": "assistant",
                "content": "I ask.",
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Jena"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "sunny"},
            {"role": "user", "content": "And now?"},
        ],
        "max_completion_tokens": 50,
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "Tells it", "parameters": TOOL["input_schema"]},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": ["END"],
        "user": "u-1",
    }


IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


async def test_a_stream_of_chunks_as_events(client: AsyncAnthropic, gateway: TestGateway) -> None:
    for model in ("chat-1", "stand-in", "auto"):
        await check_stream(client, gateway, model)


async def check_stream(client: AsyncAnthropic, gateway: TestGateway, model: str) -> None:
    raw = await gateway.call("POST", "/v1/messages", headers=VERSION, json={"model": model, "stream": True, **HELLO})
    events = [event for event in raw.body.split(b"\n\n") if event]
    told = [EVENTS.validate_json(event.partition(b"\ndata: ")[2]) for event in events if b"event: ping" not in event]
    assert events[1] == b'event: ping\ndata: {"type":"ping"}'
    assert [one.type for one in told][:2] == ["message_start", "content_block_start"]
    assert [one.type for one in told][-3:] == ["content_block_stop", "message_delta", "message_stop"]
    async with client.messages.stream(model=model, **HELLO) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    whole = await client.messages.create(model=model, **HELLO)
    assert [block.model_dump(include={"type", "text"}) for block in message.content] == [
        block.model_dump(include={"type", "text"}) for block in whole.content
    ]
    assert text == "".join(block.text for block in whole.content if block.type == "text")
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)
    assert message.model == ("chat-1" if model == "auto" else model)


async def test_errors_in_mid_stream_end_it(upstream: FakeUpstream, vendor: Vendor, gateway: TestGateway) -> None:
    hold = asyncio.Event()
    upstream.script.append(Behaviour("stream-reset"))
    failing = sse(*STREAM[:4], {"type": "error", "error": {"type": "overloaded_error"}}, named=True)
    vendor.script.append(Given(stream=failing, hold=hold))
    for model, kind in (("chat-1", "api_error"), ("claude", "overloaded_error")):
        hold.clear()
        headers = VERSION | {"x-api-key": gateway.admin_key}
        body = {"model": model, "stream": True, **HELLO}
        async with gateway.http.post(f"{gateway.url}/v1/messages", headers=headers, json=body) as answer:
            raw = await answer.content.readany()
            hold.set()
            raw += await answer.content.read()
        last = raw.removesuffix(b"\n\n").split(b"\n\n")[-1]
        assert last.startswith(b"event: error\ndata: ")
        told = msgspec.json.decode(last.partition(b"data: ")[2])
        assert (told["type"], told["error"]["type"]) == ("error", kind)
        assert told["request_id"] == answer.headers["request-id"]
        assert b"message_stop" not in raw


async def test_errors_are_told_in_its_shape(
    upstream: FakeUpstream, gateway: TestGateway, client: AsyncAnthropic
) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        await client.messages.create(model="no-such", **HELLO)
    assert missing.value.body == {
        "type": "error",
        "error": {"type": "not_found_error", "message": "Model 'no-such' not found"},
        "request_id": missing.value.request_id,
    }
    async with AsyncAnthropic(base_url=f"{gateway.url}/anthropic", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(anthropic.AuthenticationError):
            await stranger.messages.create(model="chat-1", **HELLO)
    upstream.script.append(Behaviour(status=429, retry_after="7"))
    with pytest.raises(anthropic.RateLimitError) as limited:
        await client.messages.create(model="chat-1", **HELLO)
    assert limited.value.response.headers["retry-after"] == "7"
    wrong = await gateway.call("PUT", "/v1/messages", headers=VERSION)
    assert (wrong.status, wrong.json["type"]) == (405, "error")
    lists = await gateway.call("GET", "/v1/batches/batch_no", headers=VERSION)
    assert lists.error["code"] == 404  # that header makes no dialect there


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ({"thinking": {"type": "adaptive"}}, "thinking.type"),
    ({"cache_control": {"type": "ephemeral"}}, "cache_control"),
    ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
    ({"top_k": 5}, "top_k"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tools": [TOOL | {"cache_control": {"type": "ephemeral"}}]}, "tools[0].cache_control"),
    ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "messages[1]"),
    ({"unheard_of": 1}, "unheard_of"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"messages": []}, "messages"),
    ({"container": "c"}, "container"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
        "messages[0].content[0].source",
    ),
]


async def test_what_a_route_cannot_carry_is_refused_by_name(upstream: FakeUpstream, gateway: TestGateway) -> None:
    for members, named in REFUSED:
        body = {"model": "chat-1", **HELLO, **members}
        answer = await gateway.call("POST", "/v1/messages", headers=VERSION, json=body)
        assert (answer.status, answer.error["type"]) == (400, "invalid_request_error")
        assert answer.error["message"].startswith(f"{named}: "), answer.error["message"]
    assert upstream.requests == []


async def test_versions(gateway: TestGateway, vendor: Vendor) -> None:
    narrow = {"anthropic-version": "2026-10-21"}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"temperature": 0.5}, "temperature"),
        ({"top_p": 0.5}, "top_p"),
        ({"top_k": 5}, "top_k"),
        (
            {"messages": [HELLO["messages"][0], {"role": "assistant", "content": [document]}]},
            "messages[1].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "citations": [{}]}]}]},
            "messages[0].content[0].citations",
        ),
    ]
    for members, named in refused:
        body = {"model": "claude", **HELLO, **members}
        answer = await gateway.call("POST", "/v1/messages", headers=narrow, json=body)
        assert (answer.status, answer.error["message"].partition(":")[0]) == (400, named)
        vendor.script.append(Given(ANSWER))
        assert (await gateway.call("POST", "/v1/messages", headers=VERSION, json=body)).status == 200
    unknown = await gateway.call(
        "POST", "/v1/messages", headers={"anthropic-version": "2020-01-01"}, json={"model": "claude", **HELLO}
    )
    assert unknown.status == 400
    assert "anthropic-version" in unknown.error["message"]


async def test_the_stand_in_counts_what_it_reads(client: AsyncAnthropic) -> None:
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "A word or two"}]}]
    counted = await client.messages.count_tokens(model="stand-in", system="Be brief", messages=said)
    message = await client.messages.create(model="stand-in", system="Be brief", messages=said, max_tokens=50)
    assert counted.input_tokens == message.usage.input_tokens == 2 + 4


async def test_counting_needs_a_server_that_counts(client: AsyncAnthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="cannot be asked for count_tokens"):
        await client.messages.count_tokens(model="chat-1", messages=HELLO["messages"])


async def test_models_in_the_shape_of_who_asks(gateway: TestGateway, client: AsyncAnthropic) -> None:
    listed = [model async for model in client.models.list(limit=2)]
    assert [model.id for model in listed] == ["chat-1", "stand-in", "embed-1", "claude", "engine", "plain", "auto"]
    assert (listed[0].max_input_tokens, listed[0].max_tokens, listed[0].type) == (9_000, 500, "model")
    assert (await client.models.retrieve("claude")).display_name == "claude"
    with pytest.raises(anthropic.NotFoundError):
        await client.models.retrieve("no-such")
    before = await gateway.call("GET", "/anthropic/v1/models", params={"before_id": "claude", "limit": "2"})
    assert [model["id"] for model in before.json["data"]] == ["stand-in", "embed-1"]
    assert before.json["has_more"] is True
    assert (await gateway.call("GET", "/v1/models")).json["object"] == "list"
    bad = await gateway.call("GET", "/anthropic/v1/models", params={"after_id": "no"})
    assert (bad.status, bad.error["type"]) == (400, "invalid_request_error")


async def test_a_request_is_sent_where_it_can_be_carried(database_url: str, tmp_path: Path) -> None:
    """Of two routes one alone takes reasoning: it serves, and while it is away, the other is no reason to refuse."""
    async with FakeUpstream() as upstream, Vendor() as vendor:
        routes = [
            {"id": "chat", "kind": "openai", "base_url": upstream.url, "weight": 1000},
            {"id": "claude", "kind": "anthropic", "base_url": vendor.url, "weight": 1},
        ]
        models = models_file(tmp_path, {"id": "both", "max_output_tokens": 100, "routes": routes})
        async with start_gateway(database_url, models, role="api") as gateway, client_of(gateway) as client:
            thinking: Any = {"type": "adaptive"}
            vendor.script += [Given(ANSWER), Given({"error": {"type": "api_error", "message": "no"}}, 500)]
            assert (await client.messages.create(model="both", thinking=thinking, **HELLO)).id == "msg_1"
            with pytest.raises(anthropic.InternalServerError):
                await client.messages.create(model="both", thinking=thinking, **HELLO)
            assert upstream.requests == []


OPERATIONS = [
    ("POST", ""),
    ("GET", ""),
    ("GET", "/msgbatch_1"),
    ("DELETE", "/msgbatch_1"),
    ("POST", "/msgbatch_1/cancel"),
    ("GET", "/msgbatch_1/results"),
]


async def test_message_batches_are_gone_whoever_calls(
    gateway: TestGateway, client: AsyncAnthropic, database_url: str, models: Path
) -> None:
    for prefix in ("/v1", "/anthropic/v1"):
        for method, path in OPERATIONS:
            for key in (None, "", "ebb-nobody"):
                answer = await gateway.call(method, f"{prefix}/messages/batches{path}", key=key, headers=VERSION)
                assert (answer.status, answer.json["type"]) == (410, "error")
                assert "/v1/batches" in answer.error["message"]
    with pytest.raises(anthropic.APIStatusError) as gone:
        await client.messages.batches.create(requests=[])
    assert gone.value.status_code == 410
    async with start_gateway(database_url, models, role="api", environ={"BATCH_ENABLED": "off"}) as off:
        answer = await off.call("GET", "/v1/messages/batches", key=None)
        assert (answer.status, answer.error["type"]) == (404, "not_found_error")
