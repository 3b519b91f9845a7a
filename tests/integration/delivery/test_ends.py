"""Whole gateways with a real endpoint: each way for a batch to end sends one event, after its results can be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest
import trustme
from standardwebhooks import Webhook
from tests.gateway import TestGateway, chat_model, models_file, request_line, start_gateway
from tests.webhook_receiver import Got, Receiver

ALLOWED = {"BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on"}
PAUSED = ALLOWED | {"BATCH_MODEL_CONCURRENCY": "0"}


@pytest.fixture
async def receiver(authority: trustme.CA) -> AsyncIterator[Receiver]:
    """Reached as `localhost`, by the machine's own name server."""
    async with Receiver(authority, "localhost") as receiver:
        yield receiver


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return models_file(tmp_path, chat_model())


async def set_up(gateway: TestGateway, receiver: Receiver) -> str:
    answer = await gateway.call("PUT", "/v1/batch_webhook", json={"url": receiver.url()})
    assert answer.status == 200, answer.body
    return str(answer.json["secret"])


async def create(gateway: TestGateway) -> str:
    batch = await gateway.call("POST", "/v1/batches", json={"requests": [request_line("a"), request_line("b")]})
    return str(batch.json["id"])


async def create_from_file(gateway: TestGateway, content: bytes) -> str:
    body = {
        "input_file_id": (await gateway.upload(content)).json["id"],
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    }
    return str((await gateway.call("POST", "/v1/batches", json=body)).json["id"])


def unwrapped(got: Got, secret: str) -> Any:
    """The event, as both libraries verify and read it."""
    verified = Webhook(secret).verify(got.body, dict(got.headers))
    event = openai.OpenAI(api_key="unused", webhook_secret=secret).webhooks.unwrap(got.body, dict(got.headers))
    assert event.id == got.event_id == verified["id"]
    return event


async def assert_told(gateway: TestGateway, receiver: Receiver, secret: str, ends: dict[str, str]) -> None:
    """Exactly one event for each of the batches, telling the status that they have when it comes."""
    got = await receiver.wait_for(len(ends))
    told = {event.data.id: event.type for event in (unwrapped(one, secret) for one in got)}
    assert told == {batch_id: f"batch.{status}" for batch_id, status in ends.items()}
    for batch_id, status in ends.items():
        assert (await gateway.call("GET", f"/v1/batches/{batch_id}")).json["status"] == status
        assert (await gateway.call("GET", f"/v1/batches/{batch_id}/results")).status == 200
    async with gateway.database.connection() as conn:
        assert await conn.fetchval("select count(*) from batch_webhook_events") == len(ends)
    assert len(receiver.got) == len(ends)


async def test_completed_and_failed(database_url: str, models: Path, receiver: Receiver, ca_file: Path) -> None:
    async with start_gateway(database_url, models, environ=ALLOWED, webhook_ca_file=ca_file) as gateway:
        secret = await set_up(gateway, receiver)
        good = msgspec.json.encode(request_line("a"))
        ends = {
            await create(gateway): "completed",
            await create_from_file(gateway, good): "completed",
            await create_from_file(gateway, good + b"\nnonsense"): "failed",
        }
        await assert_told(gateway, receiver, secret, ends)


async def test_batches_of_geminis_api(database_url: str, models: Path, receiver: Receiver, ca_file: Path) -> None:
    """The events are everyone's: they name a batch as /v1/batches does."""
    async with start_gateway(database_url, models, environ=ALLOWED, webhook_ca_file=ca_file) as gateway:
        secret = await set_up(gateway, receiver)
        request = {"contents": [{"parts": [{"text": "Hello"}]}]}

        async def create(config: dict[str, Any]) -> str:
            body = {"batch": {"inputConfig": config}}
            made = await gateway.call("POST", "/v1beta/models/chat-1:batchGenerateContent", json=body)
            return str(made.json["name"]).replace("batches/", "batch_")

        async def create_from_lines(*lines: dict[str, Any]) -> str:
            content = b"\n".join(map(msgspec.json.encode, lines))
            headers = {"X-Goog-Upload-Protocol": "raw"}
            file = await gateway.call("POST", "/upload/v1beta/files", headers=headers, data=content)
            return await create({"fileName": file.json["file"]["name"]})

        ends = {
            await create({"requests": {"requests": [{"request": request}]}}): "completed",
            await create_from_lines({"key": "a", "request": request}): "completed",
            await create_from_lines({"key": "a", "request": {}}): "failed",
        }
        await assert_told(gateway, receiver, secret, ends)
        for batch_id in ends:
            told = await gateway.call("GET", f"/v1beta/batches/{batch_id.removeprefix('batch_')}")
            assert told.json["done"]


async def test_expired_and_cancelled(database_url: str, models: Path, receiver: Receiver, ca_file: Path) -> None:
    async with start_gateway(database_url, models, environ=PAUSED, webhook_ca_file=ca_file) as gateway:
        secret = await set_up(gateway, receiver)
        cancelled, expired = await create(gateway), await create(gateway)
        await gateway.call("POST", f"/v1/batches/{cancelled}/cancel")
        await gateway.call("POST", f"/v1/batches/{cancelled}/cancel")
        async with gateway.database.transaction() as conn:
            await conn.execute("update batch_jobs set expires_at = now() where id = $1", expired)
        await assert_told(gateway, receiver, secret, {cancelled: "cancelled", expired: "expired"})


async def test_cancelled_while_validating(database_url: str, models: Path, receiver: Receiver, ca_file: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ=ALLOWED) as gateway:
        secret = await set_up(gateway, receiver)
        batch_id = await create_from_file(gateway, msgspec.json.encode(request_line("a")))
        await gateway.call("POST", f"/v1/batches/{batch_id}/cancel")
        (event,) = (await gateway.call("GET", "/v1/batch_webhook/events")).json["data"]
        assert (event["type"], event["batch_id"], event["state"]) == ("batch.cancelled", batch_id, "pending")
        assert receiver.got == []
    async with start_gateway(database_url, models, environ=ALLOWED, webhook_ca_file=ca_file) as gateway:
        await assert_told(gateway, receiver, secret, {batch_id: "cancelled"})


async def test_a_message_batch_ends_with_the_event_of_its_own_api(
    database_url: str, models: Path, receiver: Receiver, ca_file: Path
) -> None:
    environ = ALLOWED | {"BATCH_MESSAGE_BATCHES": "on"}
    async with start_gateway(database_url, models, environ=environ, webhook_ca_file=ca_file) as gateway:
        secret = await set_up(gateway, receiver)
        params = {"model": "chat-1", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}
        body = {"requests": [{"custom_id": "a", "params": params}, {"custom_id": "b", "params": {"model": "none"}}]}
        headers = {"anthropic-version": "2023-06-01"}
        made = (await gateway.call("POST", "/v1/messages/batches", headers=headers, json=body)).json
        [got] = await receiver.wait_for(1)
        verified = Webhook(secret).verify(got.body, dict(got.headers))
        assert verified.keys() == {"id", "object", "type", "created_at", "data"}
        assert (verified["id"], verified["object"]) == (got.event_id, "event")
        assert (verified["type"], verified["data"]) == ("message_batch.ended", {"id": made["id"]})
        unwrap = anthropic.Anthropic(api_key="unused").beta.webhooks.unwrap
        assert unwrap(got.body.decode(), headers=dict(got.headers), key=secret).id == got.event_id
        path = f"/v1/messages/batches/{made['id']}"
        assert (await gateway.call("GET", path, headers=headers)).json["processing_status"] == "ended"
        assert len((await gateway.call("GET", f"{path}/results", headers=headers)).body.splitlines()) == 2


async def test_without_a_webhook_or_with_one_switched_off_there_is_no_event(
    database_url: str, models: Path, receiver: Receiver
) -> None:
    async with start_gateway(database_url, models, role="api", environ=ALLOWED) as gateway:
        line = msgspec.json.encode(request_line("a"))
        first = await create_from_file(gateway, line)
        await gateway.call("POST", f"/v1/batches/{first}/cancel")
        await set_up(gateway, receiver)
        await gateway.call("PUT", "/v1/batch_webhook", json={"enabled": False})
        second = await create_from_file(gateway, line)
        await gateway.call("POST", f"/v1/batches/{second}/cancel")
        assert (await gateway.call("GET", "/v1/batch_webhook/events")).json["data"] == []


async def test_two_gateways_send_each_event_once(
    database_url: str, models: Path, receiver: Receiver, ca_file: Path
) -> None:
    async with (
        start_gateway(database_url, models, environ=ALLOWED, webhook_ca_file=ca_file) as gateway,
        start_gateway(database_url, models, environ=ALLOWED, webhook_ca_file=ca_file),
    ):
        secret = await set_up(gateway, receiver)
        ends = {await create(gateway): "completed" for _ in range(8)}
        await assert_told(gateway, receiver, secret, ends)
        assert receiver.busiest == 1
