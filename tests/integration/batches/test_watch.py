"""Following batches inside a process: what a look costs, who is told, and that nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from ebbtide import ids
from ebbtide.batches import intake_store, watch
from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, read_batch
from ebbtide.batches.watch import Progress, Watch
from ebbtide.storage.pool import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Times:
    """Tells the time, a second further at each look, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> Moment:
        self.asked += 1
        return Moment(NOON + timedelta(seconds=self.asked), "internal")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)


async def new_batch(database: Database, total: int = 10) -> Job:
    new = intake_store.NewBatch(
        id=ids.batch_id(),
        account_id="acct",
        key_id="key",
        api_surface="openai_inline",
        target="chat",
        input_id=ids.file_id(),
        metadata=None,
        completion_window="24h",
        retention_days=7,
        phase="open",
        created_at=NOON,
        expires_at=None,
        total=total,
    )
    async with database.transaction() as conn:
        await intake_store.insert_batch(conn, new)
        return await read_batch(conn, new.id)


async def finish_one(database: Database, job: Job) -> None:
    async with database.transaction() as conn:
        await conn.execute("update batch_jobs set completed = completed + 1 where no = $1", job.no)


def follow(hub: Watch, job: Job, *, quiet: float = 60, seconds: float = 60) -> AsyncGenerator[Progress | None, None]:
    return hub.follow(job, quiet=quiet, seconds=seconds)


async def until_nobody_looks() -> None:
    async with asyncio.timeout(5):
        while any(task.get_name() == "watch" for task in asyncio.all_tasks()):  # noqa: ASYNC110  a task ends itself
            await asyncio.sleep(0.01)


async def test_one_look_serves_all_who_follow(database: Database) -> None:
    times = Times()
    hub = Watch(database, times, asyncio.Event())
    jobs = [await new_batch(database) for _ in range(3)]
    followers = [follow(hub, jobs[n % 3]) for n in range(60)]
    firsts = [await anext(follower) for follower in followers]
    assert {first.job.version for first in firsts if first is not None and first.job is not None} == {1}
    for job in jobs:
        await finish_one(database, job)
    before = times.asked
    for follower in followers:
        told = await anext(follower)
        while told is None or told.job is None or told.job.version < 2:
            told = await anext(follower)
    assert times.asked - before < 20  # a few looks, not one for each of 60 followers
    for follower in followers:
        await follower.aclose()
    await until_nobody_looks()
    asked = times.asked
    async with aclosing(follow(hub, jobs[0])) as again:  # and it begins anew for the next
        await anext(again)
        assert times.asked > asked
    await until_nobody_looks()


async def test_the_rate_is_what_ended_over_the_time_watched(database: Database) -> None:
    hub = Watch(database, Times(), asyncio.Event())
    job = await new_batch(database)
    async with aclosing(follow(hub, job)) as states:
        first, second = await anext(states), await anext(states)
        assert first is not None
        assert first.rate is None
        assert second is not None
        assert second.rate == 0
        await finish_one(database, job)
        third = await anext(states)
        assert third is not None
        assert third.rate is not None
        assert 0 < third.rate <= 0.5  # one request in two seconds or more
        fourth = await anext(states)  # nothing but the rate changes
        assert fourth is not None
        assert fourth.rate is not None
        assert fourth.rate < third.rate
    await until_nobody_looks()


async def test_the_past_beyond_a_minute_does_not_count(database: Database) -> None:
    hub = Watch(database, Times(), asyncio.Event())
    job = await new_batch(database)
    rates = []
    async with aclosing(follow(hub, job)) as states:
        await finish_one(database, job)
        async for progress in states:
            assert progress is not None
            rates.append(progress.rate)
            if progress.rate == 0 and max(rate or 0 for rate in rates) > 0:
                break  # it has come down to nothing again
    assert len(rates) <= 63
    await until_nobody_looks()


async def test_the_last_state_ends_it(database: Database) -> None:
    hub = Watch(database, Times(), asyncio.Event())
    job = await new_batch(database, total=1)
    told = []
    async with aclosing(follow(hub, job)) as states:
        async for progress in states:
            assert progress is not None
            told.append(progress)
            if len(told) == 1:
                async with database.transaction() as conn:
                    await conn.execute(
                        "update batch_jobs set phase = 'sealed', completed = 1, sealed_at = now(),"
                        " results_expires_at = now()"
                    )
    assert told[-1].job is not None
    assert told[-1].job.status == "completed"
    await until_nobody_looks()


async def test_silence_is_told_and_time_ends_it(database: Database) -> None:
    hub = Watch(database, lambda: Moment(NOON, "internal"), asyncio.Event())
    job = await new_batch(database)
    told = [progress async for progress in follow(hub, job, quiet=0.05, seconds=0.3)]
    assert told[0] is not None
    assert 2 <= len(told[1:]) <= 6
    assert set(told[1:]) == {None}
    await until_nobody_looks()


async def test_a_stopping_process_lets_everyone_go(database: Database) -> None:
    stopping = asyncio.Event()
    hub = Watch(database, lambda: Moment(NOON, "internal"), stopping)
    states = follow(hub, await new_batch(database))
    await anext(states)
    stopping.set()
    async with asyncio.timeout(2):
        assert [progress async for progress in states] == []
    await until_nobody_looks()


async def test_a_database_that_is_away_is_waited_for(database: Database, database_url: str) -> None:
    job = await new_batch(database)
    away = await Database.connect(database_url)
    hub = Watch(away, lambda: Moment(NOON, "internal"), asyncio.Event())
    async with aclosing(follow(hub, job, quiet=0.1)) as states:
        await anext(states)
        await away.close()
        assert [await anext(states) for _ in range(3)] == [None] * 3
    await until_nobody_looks()


async def test_a_mistake_while_looking_lets_everyone_go(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    job = await new_batch(database)
    asked = 0

    def moment() -> Moment:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise ZeroDivisionError
        return Moment(NOON, "internal")

    hub = Watch(database, moment, asyncio.Event())
    async with asyncio.timeout(5):
        assert len([progress async for progress in follow(hub, job)]) == 1
    async with aclosing(follow(hub, job)) as states:  # whoever comes again is served
        assert await anext(states) is not None
    await until_nobody_looks()
