"""PostgreSQL is killed or frozen under a running gateway: 503 meanwhile, nothing half stored, work goes on after."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.domain import books
from tests.fake_upstream import FakeUpstream
from tests.gateway import Answer, request_line, until
from tests.processes import SHORT_LEASE, GatewayProcess, PostgresProcesses, Processes, holds
from tests.recount import attempts_by_custom_id

from ebbtide.storage.pool import Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

SIZE = 5
MANY = {"BATCH_MAX_ACTIVE_PER_USER": "100000"}


def lines(count: int, prefix: str) -> list[dict[str, object]]:
    return [request_line(f"{prefix}-{number}") for number in range(count)]


@asynccontextmanager
async def creating(gateway: GatewayProcess) -> AsyncIterator[list[Answer]]:
    """Small batches, one after the other without a pause: their answers so far."""
    answers: list[Answer] = []

    async def create() -> None:
        while True:
            requests = lines(SIZE, f"s{len(answers)}")
            answers.append(await gateway.call("POST", "/v1/batches", json={"requests": requests}))

    task = asyncio.create_task(create())
    yield answers
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def refused(answers: list[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.status == 503]


async def test_postgres_is_killed_while_batches_are_made_and_run(
    embedded: Processes, postgres: PostgresProcesses, upstream: FakeUpstream
) -> None:
    upstream.latency = 0.05
    gateway = await embedded.start(**MANY, **SHORT_LEASE)
    large = await gateway.create(lines(4_000, "large"))
    async with creating(gateway) as answers:
        for kill in range(2):
            taken, sent = len(answers), len(upstream.requests)
            await holds(lambda taken=taken, sent=sent: len(answers) > taken + 5 and len(upstream.requests) > sent + 200)  # type: ignore[misc]
            postgres.kill()
            await holds(lambda kill=kill: len(refused(answers)) > kill)  # type: ignore[misc]
            await until(lambda: _accepts(gateway), within=60)
    assert {answer.status for answer in answers} == {200, 503}
    for answer in refused(answers):
        assert int(answer.headers["retry-after"]) > 0
        assert answer.error["type"] == "server_error"
    assert (await gateway.ended(large))["request_counts"]["completed"] == 4_000
    accepted = {answer.json["id"] for answer in answers if answer.status == 200}
    async with await Database.connect(postgres.url) as database:
        await until(lambda: _all_sealed(database), within=60)
        assert await books(database) == {}
        async with database.connection() as conn:
            small = {row["id"]: row["total"] for row in await conn.fetch("select id, total from batch_jobs")}
            del small[large]
            assert await conn.fetchval("select count(*) from batch_items") == 4_000 + SIZE * len(small)
            assert await conn.fetchval("select count(*) from batch_files") == 1 + len(small)
        assert accepted <= small.keys()
        # A commit may have been the last thing before its answer was lost, or this test's last create cut off; then all
        # of that batch is there.
        assert len(small) - len(accepted) <= 3
        assert set(small.values()) == {SIZE}


async def _accepts(gateway: GatewayProcess) -> bool:
    return (await gateway.call("GET", "/health/ready", key=None)).status == 200


async def _all_sealed(database: Database) -> bool:
    async with database.connection() as conn:
        return bool(await conn.fetchval("select count(*) = 0 from batch_jobs where phase <> 'sealed'"))


async def test_postgres_is_frozen_while_a_batch_runs(
    embedded: Processes, postgres: PostgresProcesses, upstream: FakeUpstream
) -> None:
    """Every query ends by its timeout; requests that run meanwhile are kept, and recorded when it wakes."""
    upstream.latency = 0.05
    gateway = await embedded.start()
    batch_id = await gateway.create(lines(2_000, "f"))
    await holds(lambda: len(upstream.requests) > 300)
    postgres.signal(signal.SIGSTOP)
    answers = await asyncio.gather(
        gateway.call("POST", "/v1/batches", json={"requests": lines(1, "x")}),
        gateway.call("GET", f"/v1/batches/{batch_id}"),
        gateway.call("GET", "/health/ready", key=None),
    )
    assert [answer.status for answer in answers] == [503, 503, 503]
    assert int(answers[0].headers["retry-after"]) > 0
    assert (await gateway.call("GET", "/health", key=None)).status == 200
    postgres.signal(signal.SIGCONT)
    batch = await gateway.ended(batch_id)
    assert (batch["request_counts"]["completed"], batch["cost_unknown_attempts"]) == (2_000, 0)
    assert len(upstream.requests) == 2_000
    async with await Database.connect(postgres.url) as database:
        assert await books(database) == {}
        assert {a.attempts for a in (await attempts_by_custom_id(database)).values()} == {1}
        async with database.connection() as conn:
            assert await conn.fetchval("select count(*) from batch_jobs") == 1
    assert await gateway.stop() == 0
