"""Models, chat completions and embeddings, as a caller meets them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until

from ebbtide.accounts.roles import Role

CHAT = "/v1/chat/completions"
TOLD_APART = re.compile(rb'"(created(_at)?|completed_at|id|item_id)":("[^"]*"|\d+)')


def chat(model: str = "chat-1", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "Hello"}]} | more


async def test_models_are_those_of_the_role(gateway: TestGateway) -> None:
    key = await gateway.new_key("someone", Role.PRO)
    listed = (await gateway.call("GET", "/v1/models", key=key)).json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["chat-1", "embed-1"]
    assert [model["id"] for model in (await gateway.call("GET", "/v1/models")).json["data"]][-1] == "org/for-admins"


async def test_a_model_is_found_by_id_with_slashes_and_by_alias(gateway: TestGateway) -> None:
    for asked, found in (
        ("org/for-admins", "org/for-admins"),
        ("org%2Ffor-admins", "org/for-admins"),
        ("short", "chat-1"),
    ):
        assert (await gateway.call("GET", f"/v1/models/{asked}")).json["id"] == found


async def test_a_model_one_may_not_use_reads_as_one_that_does_not_exist(gateway: TestGateway) -> None:
    key = await gateway.new_key("someone", Role.INTERNAL)
    for path, model in ((CHAT, "org/for-admins"), (CHAT, "nowhere")):
        answer = await gateway.call("POST", path, key=key, json=chat(model))
        assert answer.status == 404
        assert answer.error["message"] == f"Model '{model}' not found"
        assert answer.error["code"] == "model_not_found"
        assert (await gateway.call("GET", f"/v1/models/{model}", key=key)).error == answer.error


async def test_a_completion_comes_through_with_the_model_as_named(gateway: TestGateway, upstream: FakeUpstream) -> None:
    answer = await gateway.call("POST", CHAT, json=chat("short", anything={"goes": [1]}))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["model"] == "short"
    assert answer.json["usage"]["total_tokens"] > 0
    sent = upstream.requests[-1]
    assert sent.json["model"] == "chat-1"
    assert sent.json["anything"] == {"goes": [1]}
    assert gateway.admin_key not in str(sent.headers)


async def test_embeddings(gateway: TestGateway) -> None:
    answer = await gateway.call("POST", "/v1/embeddings", json={"model": "embed-1", "input": ["a", "b"]})
    assert answer.status == 200
    assert len(answer.json["data"]) == 2


async def test_a_model_of_the_other_type_is_refused_by_name(gateway: TestGateway) -> None:
    for path, body in ((CHAT, chat("embed-1")), ("/v1/embeddings", {"model": "chat-1", "input": "a"})):
        answer = await gateway.call("POST", path, json=body)
        assert answer.status == 400
        assert body["model"] in answer.error["message"]
        assert answer.error["param"] == "model"


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        (Behaviour(status=400, message="too hot"), 400),
        (Behaviour(status=429, retry_after="7"), 429),
        (Behaviour(status=401), 502),
        (Behaviour(status=500), 500),
        (Behaviour("reset"), 502),
        (Behaviour("html"), 502),
    ],
)
async def test_failures_upstream_are_told_in_our_shape(
    gateway: TestGateway, upstream: FakeUpstream, behaviour: Behaviour, status: int
) -> None:
    for body in (chat(), chat(stream=True)):
        upstream.script.append(behaviour)
        answer = await gateway.call("POST", CHAT, json=body)
        assert answer.status == status
        assert set(answer.error) == {"message", "type", "param", "code"}
        assert str(upstream.port) not in answer.body.decode()


async def test_a_stream_hides_its_usage_unless_asked(gateway: TestGateway) -> None:
    plain = await gateway.call("POST", CHAT, json=chat("short", stream=True))
    assert plain.headers["content-type"] == "text/event-stream"
    assert plain.body.endswith(b"data: [DONE]\n\n")
    assert b'"model":"short"' in plain.body
    assert b'"usage":{' not in plain.body
    asked = await gateway.call("POST", CHAT, json=chat(stream=True, stream_options={"include_usage": True}))
    assert b'"usage":{' in asked.body


@pytest.mark.parametrize(
    ("path", "body", "end"),
    [
        (CHAT, chat(stream=True, stream_options={"include_usage": True}), b"data: [DONE]\n\n"),
        ("/v1/messages", chat(stream=True, max_tokens=9), b'{"type":"message_stop"}\n\n'),
        ("/v1/responses", {"model": "chat-1", "input": "Hello", "stream": True}, b""),
        ("/v1beta/models/chat-1:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": "Hello"}]}]}, b""),
    ],
)
async def test_a_server_may_leave_out_the_mark_at_a_streams_end(
    gateway: TestGateway, upstream: FakeUpstream, path: str, body: dict[str, Any], end: bytes
) -> None:
    told = []
    for behaviour in ("answer", "unmarked"):
        upstream.script.append(Behaviour(behaviour))
        answer = await gateway.call("POST", path, json=body, headers={"anthropic-version": "2023-06-01"})
        assert answer.body.endswith(end)
        told.append(answer.body)
    assert TOLD_APART.sub(b"", told[0]) == TOLD_APART.sub(b"", told[1])


async def test_a_stream_that_breaks_ends_with_an_error_event(gateway: TestGateway, upstream: FakeUpstream) -> None:
    upstream.script.append(Behaviour("stream-reset"))
    answer = await gateway.call("POST", CHAT, json=chat(stream=True))
    assert answer.status == 200
    assert b"[DONE]" not in answer.body
    assert answer.body.rpartition(b"data: ")[2].startswith(b'{"error":')


@pytest.mark.parametrize("body", [chat(), chat(stream=True)])
async def test_a_client_that_goes_away_before_the_answer_cancels_it_upstream(
    gateway: TestGateway, upstream: FakeUpstream, body: dict[str, Any]
) -> None:
    upstream.script.append(Behaviour("stall"))
    asking = asyncio.create_task(gateway.call("POST", CHAT, json=body))
    await upstream.arrived.get()
    asking.cancel()
    gone = await asyncio.wait_for(upstream.gone.get(), 10)
    assert gone.path == CHAT

    async def logged() -> Any:
        async with gateway.database.connection() as conn:
            return await conn.fetch("select status_code, error_code, route, attempts, cost_usd from api_logs")

    [row] = await until(logged)
    assert tuple(row) == (499, "client_closed", "chat-1-route", 1, None)


async def test_a_client_that_goes_away_in_mid_stream_cancels_it_upstream(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    upstream.script.append(Behaviour("stream-stall"))
    headers = {"Authorization": f"Bearer {gateway.admin_key}"}
    async with gateway.http.post(gateway.url + CHAT, json=chat(stream=True), headers=headers) as response:
        assert response.status == 200
        assert (await response.content.readany()).startswith(b"data: ")
        response.close()
    await asyncio.wait_for(upstream.gone.get(), 10)
    assert upstream.in_flight == 0


async def test_an_answer_that_takes_too_long_is_a_504(
    database_url: str, tmp_path: Path, upstream: FakeUpstream
) -> None:
    upstream.script.append(Behaviour("stall"))
    models = models_file(tmp_path, embedding_model(upstream.url))
    environ = {"REQUEST_TIMEOUT_SECONDS": "1"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        answer = await gateway.call("POST", "/v1/embeddings", json={"model": "embed-1", "input": "a"})
        assert answer.status == 504
        assert answer.error["code"] == "timeout"


async def test_many_callers_at_once(gateway: TestGateway, upstream: FakeUpstream) -> None:
    upstream.latency = 0.05
    answers = await asyncio.gather(*(gateway.call("POST", CHAT, json=chat()) for _ in range(50)))
    assert {answer.status for answer in answers} == {200}
    assert upstream.peak > 1


async def test_an_unfinished_body_costs_nothing(gateway: TestGateway, upstream: FakeUpstream) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.admin_key}\r\n"
        'Content-Length: 100\r\n\r\n{"model"'.encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""
    assert (await gateway.call("POST", CHAT, json=chat())).status == 200
    assert upstream.count == 1


async def test_a_body_that_never_comes_whole_is_given_up(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"REQUEST_TIMEOUT_SECONDS": "1"}) as gateway:
        for path in (CHAT, "/v1/embeddings"):
            reader, writer = await dial(gateway, path, b'{"model": "chat-1"', length=1_000)
            async with asyncio.timeout(10):
                assert b" 504 " in await reader.readline()
            writer.close()


async def test_a_reader_that_stops_reading_its_stream_is_given_up(database_url: str, tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def stream_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        event = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % (b"x" * 60_000)
        try:
            while True:
                writer.write(event)
                await writer.drain()
        except ConnectionError:
            gone.set()
        finally:
            writer.close()

    server = await asyncio.start_server(stream_for_ever, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    models = models_file(tmp_path, chat_model(f"http://127.0.0.1:{port}/v1"))
    environ = {"STREAM_REQUEST_TIMEOUT_SECONDS": "1"}
    async with server, start_gateway(database_url, models, role="api", environ=environ) as gateway:
        body = msgspec.json.encode(chat(stream=True))
        reader, writer = await dial(gateway, CHAT, body, length=len(body))
        assert b" 200 " in await reader.readline()
        async with asyncio.timeout(10):
            await gone.wait()
        writer.transport.abort()


async def dial(
    gateway: TestGateway, path: str, body: bytes, *, length: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A POST on a connection of its own, `length` bytes of body announced."""
    parts = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1024)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {gateway.admin_key}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


async def test_an_automatic_name_takes_the_first_model_that_can(
    database_url: str, upstream: FakeUpstream, tmp_path: Path
) -> None:
    dear = chat_model(upstream.url) | {"id": "dear", "aliases": [], "min_role": "admin"}
    down = chat_model(upstream.url) | {"id": "down", "aliases": []}
    down["routes"] = [route | {"weight": 0} for route in down["routes"]]
    models = models_file(tmp_path, dear, down, chat_model(upstream.url), auto={"auto": ["dear", "down", "chat-1"]})
    async with start_gateway(database_url, models) as gateway:
        key = await gateway.new_key("someone", Role.INTERNAL)
        assert (await gateway.call("POST", CHAT, json=chat("auto"))).json["model"] == "dear"
        assert (await gateway.call("POST", CHAT, key=key, json=chat("auto"))).json["model"] == "chat-1"
        listed = (await gateway.call("GET", "/v1/models", key=key)).json["data"]
        assert [model["id"] for model in listed] == ["down", "chat-1", "auto"]
        assert (await gateway.call("GET", "/v1/models/auto", key=key)).json["id"] == "auto"
        unknown = await gateway.call("POST", CHAT, key=key, json=chat("auto-fast"))
        assert (unknown.status, unknown.error["code"]) == (404, "model_not_found")
        batch = {"requests": [{"custom_id": "a", "body": chat("auto")}]}
        assert (await gateway.call("POST", "/v1/batches", key=key, json=batch)).status == 400
