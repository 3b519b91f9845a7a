"""GET /v1/batches/{id}/events: progress as server-sent events, however many listen, until the batch has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, request_line, start_gateway

import ebbtide.api.openai.batches
from ebbtide.accounts.roles import Role

Event = tuple[str, int | None, Any]  # name, id, data


class Events:
    """One stream, read an event at a time; `comments` are the heartbeats."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.comments = 0

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        name, number, data = "", None, None
        async with asyncio.timeout(20):
            async for line in self.response.content:
                field, _, value = line.decode().rstrip("\n").partition(": ")
                match field:
                    case "event":
                        name = value
                    case "id":
                        number = int(value)
                    case "data":
                        data = msgspec.json.decode(value)
                    case "" if value:
                        self.comments += 1
                    case "" if data is not None:
                        return name, number, data
        return None

    async def rest(self) -> list[Event]:
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@asynccontextmanager
async def listening(gateway: TestGateway, batch_id: str, *, key: str = "", **headers: str) -> AsyncIterator[Events]:
    sent = {"Authorization": f"Bearer {key or gateway.admin_key}"} | headers
    async with gateway.http.get(f"{gateway.url}/v1/batches/{batch_id}/events", headers=sent) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        yield Events(response)


async def create(gateway: TestGateway, count: int = 1, text: str = "Hi") -> str:
    lines = [request_line(f"r{n}", text=text) for n in range(count)]
    answer = await gateway.call("POST", "/v1/batches", json={"requests": lines})
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def change(gateway: TestGateway, sql: str, *values: object) -> None:
    async with gateway.database.transaction() as conn:
        await conn.execute(sql, *values)


async def test_from_the_present_state_to_the_last(
    database_url: str, listen_url: str, models: Path, upstream: FakeUpstream
) -> None:
    upstream.decide = lambda _: Behaviour(latency=0.3)
    environ = {"BATCH_MODEL_CONCURRENCY": "2"}
    async with (
        start_gateway(database_url, models, role="api", listen_url=listen_url) as front,
        start_gateway(database_url, models, listen_url=listen_url, environ=environ) as back,
    ):
        batch_id = await create(back, 14)
        async with listening(front, batch_id) as events:
            told = await events.rest()
    *states, done = told
    assert [name for name, _, _ in states] == ["batch"] * len(states)
    assert done == ("done", None, {"id": batch_id, "object": "batch.done", "status": "completed"})
    assert len(states) >= 3
    versions = [number or 0 for _, number, _ in states]
    assert versions == sorted(versions)
    last = states[-1][2]
    assert last["request_counts"] == {"total": 14, "completed": 14, "failed": 0, "cancelled": 0, "expired": 0}
    assert (last["status"], last["estimated_completion_at"], last["blocked_reason"]) == ("completed", None, None)
    running = [data for _, _, data in states if data["status"] == "in_progress" and data["rate"]]
    assert running
    assert all(1 < data["rate"] < 14 and data["finishes_in_time"] for data in running[1:])


async def test_an_ended_batch_tells_its_state_once(gateway: TestGateway) -> None:
    batch_id = await create(gateway)
    await change(
        gateway, "update batch_jobs set phase = 'sealed', completed = 1, sealed_at = now(), results_expires_at = now()"
    )
    for headers in ({}, {"Last-Event-ID": "2"}, {"Last-Event-ID": "rubbish"}):
        async with listening(gateway, batch_id, **headers) as events:
            (name, number, data), done = await events.rest()
        assert (name, number, data["status"], done[0]) == ("batch", 2, "completed", "done")


async def test_a_change_of_reason_is_told_and_silence_is_kept_alive(
    gateway: TestGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ebbtide.api.openai.batches, "HEARTBEAT_SECONDS", 0.2)
    batch_id = await create(gateway)
    async with listening(gateway, batch_id) as events:
        first = await events.next()
        assert first is not None
        assert (first[1], first[2]["blocked_reason"], first[2]["rate"]) == (1, None, None)
        second = await events.next()  # the rate is known now
        assert second is not None
        assert second[2]["rate"] == 0
        before = events.comments
        await change(
            gateway,
            "update batch_user_state set blocked_reason = 'daily_quota', blocked_until = now() + interval '1 hour'",
        )
        blocked = await events.next()
        assert blocked is not None
        assert (blocked[1], blocked[2]["blocked_reason"]) == (1, "daily_quota")
        assert events.comments > before


async def test_a_deleted_batch_ends_its_stream(gateway: TestGateway) -> None:
    batch_id = await create(gateway)
    async with listening(gateway, batch_id) as events:
        await events.next()
        await gateway.call("DELETE", f"/v1/batches/{batch_id}")
        told = await events.rest()
    assert told[-1] == ("done", None, {"id": batch_id, "object": "batch.done", "status": "deleted"})


async def test_another_accounts_batch_has_no_events(gateway: TestGateway) -> None:
    batch_id = await create(gateway)
    key = await gateway.new_key("other", Role.INTERNAL)
    assert (await gateway.call("GET", f"/v1/batches/{batch_id}/events", key=key)).status == 404
    assert (await gateway.call("GET", "/v1/batches/batch_none/events")).status == 404


async def test_the_stream_ends_in_good_order_when_its_time_is_over(database_url: str, models: Path) -> None:
    environ = {"STREAM_REQUEST_TIMEOUT_SECONDS": "2"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        batch_id = await create(gateway)
        async with listening(gateway, batch_id) as events:
            assert {name for name, _, _ in await events.rest()} == {"batch"}  # a broken stream would raise


async def test_a_process_that_stops_ends_its_streams_at_once(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api") as gateway:
        batch_id = await create(gateway)
        async with listening(gateway, batch_id) as events:
            await events.next()
            gateway.stop.ask()
            async with asyncio.timeout(5):
                assert {name for name, _, _ in await events.rest()} <= {"batch"}
