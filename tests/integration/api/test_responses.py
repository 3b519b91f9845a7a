"""Responses online and in batches, over a server that speaks them and over translation, read in the SDK's own types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import APIError, AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import Response
from pydantic import BaseModel
from tests.conftest import Server, database_at
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until
from tests.sdks import SOURCES, run_node
from tests.vendors import Given, Vendor, sse

from ebbtide.accounts.roles import Role

URL: Final = "/v1/responses"
FINAL: Final = {"completed", "failed", "expired", "cancelled"}
TOOL: Final[Any] = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
PRICING: Final = {"input": 1.0, "output": 2.0, "cached_input": 0.5}


@pytest.fixture(scope="module")
async def model_server() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as vendor:
        yield vendor


@pytest.fixture(autouse=True)
def upstream(model_server: FakeUpstream) -> FakeUpstream:
    model_server.script.clear()
    model_server.requests.clear()
    return model_server


@pytest.fixture(scope="module")
async def gateway(
    server: Server,
    template: str,
    model_server: FakeUpstream,
    vendor: Vendor,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[TestGateway]:
    """One gateway for this file, worker included."""

    def route(name: str, speaks: list[str]) -> dict[str, Any]:
        return {"id": name, "kind": "openai", "model": "inside", "base_url": model_server.url, "speaks": speaks}

    models = models_file(
        tmp_path_factory.mktemp("responses"),
        chat_model(name="standin-1"),
        chat_model(model_server.url, "translated-1", pricing=PRICING),
        {
            "id": "native-1",
            "type": "chat",
            "pricing": PRICING,
            "aliases": ["nat"],
            "routes": [route("n", ["chat", "responses"])],
        },
        {"id": "mixed-1", "type": "chat", "routes": [route("m1", ["chat"]), route("m2", ["responses"])]},
        {
            "id": "vendor-1",
            "type": "chat",
            "max_output_tokens": 100,
            "routes": [{"id": "v", "kind": "anthropic", "model": "inside", "base_url": vendor.url}],
        },
        embedding_model(model_server.url),
    )
    async with server.database(template) as name:
        database, listen = database_at(server.url, name), database_at(server.listen_url, name)
        async with start_gateway(database, models, listen_url=listen) as gateway:
            yield gateway


@pytest.fixture
async def client(gateway: TestGateway) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.admin_key, max_retries=0) as client:
        yield client


MODELS = ["standin-1", "translated-1", "native-1"]


@pytest.mark.parametrize("model", MODELS)
async def test_a_response_is_what_the_sdk_reads(client: AsyncOpenAI, model: str) -> None:
    answer = await client.responses.create(model=model, input="Hello", instructions="Be brief.", metadata={"job": "7"})
    Response.model_validate(answer.to_dict())
    assert (answer.object, answer.status, answer.model) == ("response", "completed", model)
    assert "Hello" in answer.output_text
    assert answer.instructions == "Be brief."
    assert answer.to_dict()["store"] is False
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0


@pytest.mark.parametrize("model", MODELS)
async def test_a_stream_tells_what_a_whole_answer_does(client: AsyncOpenAI, model: str) -> None:
    whole = await client.responses.create(model=model, input="Hello")
    async with client.responses.stream(model=model, input="Hello") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [events[0].type, events[-1].type] == ["response.created", "response.completed"]
    assert [getattr(event, "sequence_number", None) for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert (final.output_text, final.model, final.usage) == (whole.output_text, model, whole.usage)


async def test_a_server_that_speaks_responses_gets_the_body_as_it_came(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    body = {
        "model": "nat",
        "input": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "web_search"}],
        "odd": 1.50,
    }
    answer = await gateway.call("POST", URL, json=body)
    assert (answer.status, answer.json["model"]) == (200, "nat")
    (sent,) = upstream.requests
    assert sent.path == "/v1/responses"
    assert sent.json == {**body, "model": "inside", "store": False}


async def test_any_other_server_gets_a_chat_completion_that_says_the_same(
    client: AsyncOpenAI, upstream: FakeUpstream
) -> None:
    await client.responses.create(
        model="translated-1",
        instructions="Be brief.",
        input=[
            {"role": "user", "content": "What is it?"},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "A cat"},
        ],
        tools=[TOOL],
        tool_choice="auto",
        max_output_tokens=50,
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
        reasoning={"effort": "low"},
    )
    (sent,) = upstream.requests
    assert sent.path == "/v1/chat/completions"
    said = sent.json
    assert said["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is it?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A cat"},
    ]
    assert said["tools"][0]["function"]["name"] == "look"
    assert said["response_format"]["json_schema"] == {"name": "n", "schema": {"type": "object"}, "strict": True}
    assert (said["max_completion_tokens"], said["reasoning_effort"]) == (50, "low")


async def test_a_route_that_can_carry_the_request_is_found(gateway: TestGateway, upstream: FakeUpstream) -> None:
    for _ in range(5):
        body = {"model": "mixed-1", "input": "Hi", "tools": [{"type": "web_search"}]}
        assert (await gateway.call("POST", URL, json=body)).status == 200
    assert {sent.path for sent in upstream.requests} == {"/v1/responses"}


@pytest.mark.parametrize(
    ("model", "members", "path", "code"),
    [
        ("native-1", {"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"),
        ("standin-1", {"store": True}, "store", "unsupported_parameter"),
        ("native-1", {"background": True}, "background", "unsupported_parameter"),
        ("native-1", {"conversation": {"id": "conv_1"}}, "conversation", "unsupported_parameter"),
        ("standin-1", {"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_parameter"),
        ("translated-1", {"top_k": 3}, "top_k", "unsupported_parameter"),
        ("standin-1", {"max_output_tokens": "many"}, "max_output_tokens", 400),
        ("embed-1", {}, "model", 400),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_cannot_be_carried_is_refused_by_its_path(
    gateway: TestGateway, model: str, members: dict[str, Any], path: str, code: object, stream: bool
) -> None:
    answer = await gateway.call("POST", URL, json={"model": model, "input": "Hi", "stream": stream, **members})
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, path, code)


async def test_no_response_can_be_asked_for_later(client: AsyncOpenAI, gateway: TestGateway) -> None:
    for ask in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(NotFoundError, match="keeps no responses"):
            await ask("resp_1")
    with pytest.raises(NotFoundError, match="keeps no responses"):
        await client.responses.input_items.list("resp_1")
    for path in ("/v1/responses/compact", "/v1/responses/input_tokens"):
        assert (await gateway.call("POST", path, json={})).status in (404, 405)
    assert (await gateway.call("GET", "/v1/responses/resp_1", key=None)).status == 401


@pytest.mark.parametrize("model", ["translated-1", "native-1"])
@pytest.mark.parametrize("do", ["stream-reset", "stream-error", "stream-close"])
async def test_a_stream_that_breaks_ends_as_a_failed_response(
    client: AsyncOpenAI, upstream: FakeUpstream, model: str, do: str
) -> None:
    upstream.script.append(Behaviour(do, message="secret words"))
    events = [event async for event in await client.responses.create(model=model, input="Hello", stream=True)]
    last = events[-1]
    assert last.type == "response.failed"
    assert last.sequence_number == len(events) - 1
    assert last.response.status == "failed"
    assert last.response.error is not None
    assert last.response.error.code == "server_error"


@pytest.mark.parametrize("model", ["translated-1", "native-1"])
async def test_a_failure_before_the_first_word_is_an_ordinary_error(
    client: AsyncOpenAI, upstream: FakeUpstream, model: str
) -> None:
    for stream in (False, True):
        upstream.script.append(Behaviour(status=400, message="too long", code="context_length_exceeded"))
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model=model, input="Hello", stream=stream)
        assert refused.value.code == "context_length_exceeded"
        upstream.script.append(Behaviour("html"))
        with pytest.raises(APIError):
            await client.responses.create(model=model, input="Hello", stream=stream)


async def test_tokens_and_cost_of_a_native_response_are_logged(gateway: TestGateway, client: AsyncOpenAI) -> None:
    for stream in (False, True):
        key = await gateway.new_key(f"logged-{stream}", Role.INTERNAL)
        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key) as own:
            if stream:
                _ = [event async for event in await own.responses.create(model="native-1", input="Hi", stream=True)]
            else:
                await own.responses.create(model="native-1", input="Hi")
        row = await until(lambda name=f"logged-{stream}": _logged(gateway, name))
        assert (row["target"], row["input_tokens"], row["cached_tokens"]) == ("responses", 11, 3)
        assert (row["output_tokens"], row["reasoning_tokens"]) == (7, 2)
        assert float(row["cost_usd"]) == pytest.approx((8 * 1.0 + 3 * 0.5 + 7 * 2.0) / 1e6)


async def _logged(gateway: TestGateway, account: str) -> Any:
    query = "select l.* from api_logs l join accounts a on a.id = l.account_id where a.name = $1"
    async with gateway.database.transaction() as conn:
        return await conn.fetchrow(query, account)


class Word(BaseModel):
    word: str


TOLD: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "inside",
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 7},
}


async def test_the_sdk_calls_a_tool_and_parses_what_comes_of_it(client: AsyncOpenAI, vendor: Vendor) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    events = sse(
        {"type": "message_start", "message": {**TOLD, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"at": 1}'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
        named=True,
    )
    text = {"type": "text", "text": '{"word": "cat"}'}
    vendor.script += [Given(stream=events), Given({**TOLD, "stop_reason": "end_turn", "content": [text]})]
    said: list[Any] = [{"role": "user", "content": "What is there?"}]
    async with client.responses.stream(model="vendor-1", input=said, tools=[TOOL]) as stream:
        called = (await stream.get_final_response()).output[0]
    assert called.type == "function_call"
    assert (called.name, json.loads(called.arguments), called.status) == ("look", {"at": 1}, "completed")
    said += [called.to_dict(), {"type": "function_call_output", "call_id": called.call_id, "output": "A cat"}]
    parsed = await client.responses.parse(model="vendor-1", input=said, tools=[TOOL], text_format=Word)
    assert parsed.output_parsed == Word(word="cat")
    asked = vendor.asked[1].body
    assert asked["output_config"]["format"]["type"] == "json_schema"
    assert [turn["role"] for turn in asked["messages"]] == ["user", "assistant", "user"]


# Batches -------------------------------------------------------------------------------------------------------------


def line(custom_id: str, model: str, **body: Any) -> dict[str, Any]:
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": URL,
        "body": {"model": model, "input": f"input {custom_id}", **body},
    }


async def ended(gateway: TestGateway, batch_id: str) -> Any:
    async def final() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{batch_id}")).json
        return batch if batch["status"] in FINAL else None

    return await until(final)


@pytest.mark.parametrize("model", MODELS)
async def test_a_batch_of_direct_requests(gateway: TestGateway, model: str) -> None:
    created = await gateway.call("POST", "/v1/batches", json={"requests": [line("a", model), line("b", model)]})
    assert created.status == 200, created.body
    batch = await ended(gateway, created.json["id"])
    assert (batch["status"], batch["endpoint"], batch["request_counts"]["completed"]) == ("completed", URL, 2)
    page = (await gateway.call("GET", f"/v1/batches/{batch['id']}/results")).json["data"]
    for result in page:
        answer = Response.model_validate(result["response"]["body"])
        assert (answer.status, answer.model) == ("completed", model)
        assert f"input {result['custom_id']}" in answer.output_text
    spent = [result["response"]["body"]["usage"] for result in page]
    assert batch["usage"]["total_tokens"] == sum(usage["total_tokens"] for usage in spent) > 0
    if model == "native-1":
        assert batch["usage"]["input_tokens_details"]["cached_tokens"] == 6
        assert batch["usage"]["output_tokens_details"]["reasoning_tokens"] == 4


async def test_a_batch_from_a_file(gateway: TestGateway, client: AsyncOpenAI) -> None:
    content = "\n".join(json.dumps(line(name, "native-1")) for name in "ab").encode()
    file = await client.files.create(file=content, purpose="batch")
    made = await client.batches.create(input_file_id=file.id, endpoint=URL, completion_window="24h")
    batch = await ended(gateway, made.id)
    assert batch["status"] == "completed"
    output = (await client.files.content(batch["output_file_id"])).text
    answers = {entry["custom_id"]: entry["response"]["body"] for entry in map(json.loads, output.splitlines())}
    assert Response.model_validate(answers["a"]).output_text == "native answer to input a"
    assert set(answers) == {"a", "b"}


REFUSED = [
    ({"store": True}, "store"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"background": False}, "background"),
    ({"stream": True}, "stream"),
    ({"priority": 1}, "priority"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "x"}]}]},
        "input[0].content[0].type",
    ),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
]


@pytest.mark.parametrize("model", ["standin-1", "native-1"])
@pytest.mark.parametrize(("body", "path"), REFUSED)
async def test_a_request_that_is_not_independent_refuses_the_batch(
    gateway: TestGateway, model: str, body: dict[str, Any], path: str
) -> None:
    refused = await gateway.call("POST", "/v1/batches", json={"requests": [line("a", model), line("b", model, **body)]})
    assert refused.status == 400
    assert refused.error["param"] == f"requests[1].{path}"
    assert "custom_id 'b'" in refused.error["message"]


async def test_what_no_batch_route_can_carry_is_refused_when_the_batch_is_checked(gateway: TestGateway) -> None:
    requests = [line("a", "translated-1", top_k=3)]
    refused = await gateway.call("POST", "/v1/batches", json={"requests": requests})
    assert (refused.status, refused.error["param"]) == (400, "requests[0].top_k")
    kept = await gateway.call("POST", "/v1/batches", json={"requests": [line("a", "native-1", top_k=3)]})
    assert kept.status == 200
    content = json.dumps(requests[0]).encode()
    file = (await gateway.upload(content)).json["id"]
    made = {"input_file_id": file, "endpoint": URL, "completion_window": "24h"}
    batch = await ended(gateway, (await gateway.call("POST", "/v1/batches", json=made)).json["id"])
    assert batch["status"] == "failed"
    (problem,) = batch["errors"]["data"]
    assert (problem["line"], problem["param"], problem["code"]) == (1, "top_k", "unsupported_parameter")


# Other SDKs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["standin-1", "native-1"])
async def test_the_sdk_for_node_works_unchanged(gateway: TestGateway, model: str) -> None:
    seen = json.loads(await asyncio.to_thread(run_node, "responses.cjs", **_environ(gateway, model)))
    assert seen["version"] == json.loads((SOURCES / "package.json").read_text())["dependencies"]["openai"]
    text = seen["whole"]["text"]
    assert "Hello" in text
    assert (seen["whole"]["status"], seen["whole"]["model"]) == ("completed", model)
    assert (seen["deltas"], seen["streamed"], seen["helper"]) == (text, text, text)
    assert (seen["kinds"][0], seen["kinds"][-1]) == ("response.created", "response.completed")
    refused = {"status": 400, "param": "previous_response_id", "code": "unsupported_parameter"}
    assert seen["refused"] == refused
    assert seen["missing"]["status"] == 404
    assert (seen["batch"]["status"], seen["batch"]["endpoint"]) == ("completed", URL)
    assert {entry["custom_id"] for entry in seen["batch"]["lines"]} == {"a", "b"}


def _environ(gateway: TestGateway, model: str) -> dict[str, str]:
    return {"BASE_URL": f"{gateway.url}/v1", "API_KEY": gateway.admin_key, "MODEL": model}


# Fuzz ----------------------------------------------------------------------------------------------------------------

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["message", "user", "function"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "name", "call_id", "output", "format", "effort"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
members = st.sampled_from(["input", "tools", "tool_choice", "text", "reasoning", "metadata", "include", "user", "odd"])


async def test_odd_bodies_never_are_the_gateways_fault(gateway: TestGateway) -> None:
    bodies: list[dict[str, Any]] = []

    @settings(max_examples=20, deadline=None, database=None)
    @given(st.dictionaries(members, odd, max_size=4), st.booleans())
    def draw(body: dict[str, Any], stream: bool) -> None:
        bodies.append({"model": "standin-1", "input": "Hi", "stream": stream, **body})

    draw()
    for body in bodies:
        answer = await gateway.call("POST", URL, json=body)
        assert answer.status in (200, 400), (body, answer.body)
