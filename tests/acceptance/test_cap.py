"""A cap is one for the whole deployment, and what it allows is used: by several processes, by many small batches."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.domain import books
from tests.fake_upstream import FakeUpstream
from tests.gateway import request_line
from tests.processes import GatewayProcess, Processes, holds

from ebbtide.storage.pool import Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

MANY = {"BATCH_MAX_ACTIVE_PER_USER": "5000", "BATCH_ROLE_CONCURRENCY_ADMIN": "0"}


def lines(count: int, name: str) -> list[dict[str, object]]:
    return [request_line(str(number), text=name) for number in range(count)]


async def create_many(gateway: GatewayProcess, batches: int, size: int) -> None:
    at_once = asyncio.Semaphore(8)

    async def create(number: int) -> None:
        async with at_once:
            await gateway.create(lines(size, f"b{number}"))

    await asyncio.gather(*map(create, range(batches)))


async def test_two_processes_share_one_cap(processes: Processes, database: Database, upstream: FakeUpstream) -> None:
    upstream.latency = 0.05
    first = await processes.start(BATCH_MODEL_CONCURRENCY="8")
    await processes.start(BATCH_MODEL_CONCURRENCY="8")
    batch = await first.ended(await first.create(lines(600, "x")))
    assert batch["request_counts"]["completed"] == 600
    assert upstream.peak == 8
    assert await books(database) == {}
    async with database.connection() as conn:
        rows = await conn.fetch("select worker_no, count(*) as attempts from batch_attempts group by 1")
    assert len(rows) == 2
    assert min(row["attempts"] for row in rows) > 100


async def test_a_small_batch_does_not_wait_behind_a_huge_one(processes: Processes, upstream: FakeUpstream) -> None:
    upstream.latency = 0.02
    gateway = await processes.start(BATCH_MODEL_CONCURRENCY="16")
    huge = await gateway.create(lines(5_000, "huge"))
    await holds(lambda: len(upstream.requests) > 200)
    small = await gateway.create(lines(20, "small"))
    before = len(upstream.requests)
    assert (await gateway.ended(small))["request_counts"]["completed"] == 20
    assert (await gateway.batch(huge))["status"] == "in_progress"
    last = max(number for number, request in enumerate(upstream.requests) if request.text == "small")
    between = Counter(request.text for request in upstream.requests[before : last + 1])
    assert between["small"] == 20
    # What is held ready ahead of it depends on the machine's speed; behind the huge one it would wait for thousands.
    assert between["huge"] < 500
    assert (await gateway.call("POST", f"/v1/batches/{huge}/cancel")).status == 200


@pytest.mark.parametrize(("batches", "size"), [(2_000, 20), (500, 1)], ids=["2,000 of 20", "500 of 1"])
async def test_small_batches_fill_every_slot(
    processes: Processes, upstream: FakeUpstream, batches: int, size: int
) -> None:
    upstream.latency = 600.0
    api = await processes.start("--role", "api", **MANY)
    await create_many(api, batches, size)
    await processes.start(BATCH_MODEL_CONCURRENCY="32", **MANY)
    # Wave after wave: nobody answers until every slot is busy again.
    for _ in range(min(batches * size // 32 - 1, 20)):
        await holds(lambda: upstream.in_flight == 32, within=60)
        upstream.hurry()
    assert upstream.peak == 32
