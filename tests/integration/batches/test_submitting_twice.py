"""Idempotency keys on a clock that stands still: how long they are remembered, and what two creates at once make."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.clocks import ManualClock
from tests.people import create_account, create_key

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import closing, idempotency
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.idempotency import Once, find_replay, forget_keys, knows_key
from ebbtide.batches.intake import Intake, create_batch
from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.dialects.openai.requests import parse_create
from ebbtide.dispatch.translation import check_carried
from ebbtide.errors import Conflict, Gone, LimitReached
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Desk:
    """One account's creates."""

    intake: Intake
    owner: Principal
    clock: ManualClock

    def create(self, key: str, text: str = "Hello", count: int = 1) -> asyncio.Task[Job]:
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        raw = msgspec.json.encode({"requests": [{"custom_id": f"c{n}", "body": body} for n in range(count)]})
        once = Once(key, create_digest(raw))
        return asyncio.ensure_future(create_batch(self.intake, self.owner, parse_create(raw, 50_000), once))

    async def replay(self, key: str, job: Job) -> Job | None:
        rows = await self.fetch("select request_hash from batch_idempotency where batch_id = $1", job.id)
        once = Once(key, rows[0][0] if rows else b"")
        return await find_replay(
            self.intake.database, self.owner.account_id, once, Moment(self.clock.now(), "internal")
        )

    async def knows(self, key: str) -> bool:
        return await knows_key(self.intake.database, self.owner.account_id, key, self.clock.now())

    async def end(self, job: Job) -> None:
        await cancel_batch(self.intake.database, self.owner, job.id, self.clock.now())
        await closing.close_batches(self.intake.database, self.clock.now())

    async def fetch(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        async with self.intake.database.connection() as conn:
            return [tuple(row.values()) for row in await conn.fetch(sql, *values)]


@pytest.fixture
async def desk(database: Database) -> Desk:
    clock = ManualClock(NOON)
    account = await create_account(database, "owner", Role.INTERNAL, NOON)
    key, _ = await create_key(database, account.id, now=NOON)
    route = Route("r", "openai", "m", "http://127.0.0.1:9")
    catalog = Catalog.of([Model("m", "chat", (route,))])
    intake = Intake(database, catalog, Settings(batch_max_active_per_user=1), clock, check_carried)
    return Desk(intake, Principal(account.id, key.id, Role.INTERNAL), clock)


async def test_two_creates_at_once_make_one_batch_and_the_limit_is_no_obstacle(desk: Desk) -> None:
    jobs = await asyncio.gather(*(desk.create("k", count=500) for _ in range(6)))
    assert len({job.id for job in jobs}) == 1
    assert await desk.fetch("select total from batch_jobs") == [(500,)]


async def test_two_different_creates_at_once_with_one_key_make_one_batch_and_one_conflict(desk: Desk) -> None:
    outcomes = await asyncio.gather(desk.create("k", "one"), desk.create("k", "two"), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "Job"]
    conflict = next(outcome for outcome in outcomes if isinstance(outcome, Conflict))
    assert conflict.code == "idempotency_conflict"


async def test_a_refused_create_leaves_its_key_free(desk: Desk) -> None:
    first = await desk.create("k")
    with pytest.raises(LimitReached):
        await desk.create("other")
    assert not await desk.knows("other")
    await desk.end(first)
    await desk.create("other")


async def test_a_key_is_remembered_until_a_day_after_its_batch_ended(desk: Desk) -> None:
    job = await desk.create("k")
    desk.clock.move(days=20)
    assert await forget_keys(desk.intake.database, desk.clock.now()) == 0
    await desk.end(job)
    desk.clock.move(hours=23, minutes=59)
    replay = await desk.replay("k", job)
    assert replay is not None
    assert (replay.id, replay.status) == (job.id, "cancelled")
    desk.clock.move(minutes=1)
    assert not await desk.knows("k")
    again = await desk.create("k", "another request")  # the key is free, though no worker has swept it up yet
    assert again.id != job.id
    assert await desk.fetch("select batch_id, forget_at from batch_idempotency") == [(again.id, None)]


async def test_the_key_of_a_deleted_batch_says_gone_for_a_day_even_when_the_rows_are_purged(desk: Desk) -> None:
    job = await desk.create("k")
    await desk.end(job)
    desk.clock.move(hours=23)
    await delete_batch(desk.intake.database, desk.owner, job.id, desk.clock.now())
    await _purge(desk)
    assert await desk.fetch("select count(*) from batch_jobs") == [(0,)]
    desk.clock.move(hours=23)
    with pytest.raises(Gone):
        await desk.replay("k", job)
    with pytest.raises(Gone):  # whatever is sent with it
        await desk.create("k", "another request")
    desk.clock.move(hours=1)
    assert await desk.replay("k", job) is None


async def test_retention_buries_the_key_as_a_deletion_does(desk: Desk) -> None:
    job = await desk.create("k")
    await desk.end(job)
    async with desk.intake.database.transaction() as conn:  # a batch that is kept for less than its key
        await conn.execute("update batch_jobs set results_expires_at = $1", NOON + timedelta(hours=1))
    desk.clock.move(hours=2)
    assert await closing.retire_batches(desk.intake.database, desk.clock.now()) == 1
    assert await desk.fetch("select forget_at from batch_idempotency") == [(desk.clock.now() + DAY,)]


async def test_what_is_forgotten_is_swept_up_some_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_STEP_KEYS", 2)
    async with desk.intake.database.transaction() as conn:
        await conn.execute(
            """insert into batch_idempotency (account_id, key, request_hash, batch_id, created_at, forget_at)
               select 'a', n::text, decode(repeat('00', 32), 'hex'), 'b', $1, $1 from generate_series(1, 3) n""",
            NOON,
        )
    assert [await forget_keys(desk.intake.database, NOON) for _ in range(3)] == [2, 1, 0]


async def _purge(desk: Desk) -> None:
    later = desk.clock.now() + timedelta(hours=2)
    while await closing.purge_batches(desk.intake.database, later):
        pass
