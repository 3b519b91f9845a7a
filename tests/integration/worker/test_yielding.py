"""Batch work gives way to interactive requests, here and in other processes; it starts nothing when it cannot know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.domain import World, make_world
from tests.fake_upstream import Behaviour
from tests.wire import Wire

from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, get_batch
from ebbtide.storage.pool import Database
from ebbtide.worker.lanes import LIMITS_HOLD

SLOW = Behaviour(latency=0.1)


@asynccontextmanager
async def load(world: World, count: int, model: str = "chat-1") -> AsyncIterator[None]:
    """Another process that reports `count` interactive requests in flight for the block."""
    told = (
        "insert into batch_interactive_load values ('elsewhere', $1, $2, now()) on conflict (process, model) "
        "do update set in_flight = excluded.in_flight, seen_at = now()"
    )

    async def keep_telling() -> None:
        while True:
            async with world.database.connection() as conn:
                await conn.execute(told, model, count)
            await asyncio.sleep(0.5)

    telling = asyncio.create_task(keep_telling())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
        async with world.database.connection() as conn:
            await conn.execute(told, model, 0)


def runs(world: World, count: int) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return world.upstream.in_flight == count

    return is_so


async def steadily(world: World, most: int, answers: int = 12) -> int:
    """The most that run at once while the upstream answers some more."""
    world.upstream.peak = 0
    goal = world.upstream.count + answers
    await world.until(lambda: reached(world, goal))
    return min(world.upstream.peak, most + 1)


async def reached(world: World, count: int) -> bool:
    return world.upstream.count >= count


async def waits_because(world: World, job: Job, why: str) -> None:
    async def told() -> bool:
        found = await get_batch(world.database, world.owner, job.id, Moment(world.clock.now(), "internal"))
        return found.blocked_reason == why

    await world.until(told)


@pytest.fixture
async def busy(world: World) -> World:
    """A world with a cap of 8 and a slow upstream."""
    world.set(batch_model_concurrency=8)
    world.upstream.decide = lambda _: SLOW
    return world


async def test_it_shrinks_with_the_load_stops_at_the_cap_and_comes_back(busy: World) -> None:
    job = await busy.many(1_000)
    async with busy.worker(grace_seconds=1):
        await busy.until(runs(busy, 8))
        async with load(busy, 5):
            await busy.until(runs(busy, 3))
            assert await steadily(busy, 3) == 3
        await busy.until(runs(busy, 8))
        async with load(busy, 8):
            await busy.until(runs(busy, 0))
            await waits_because(busy, job, "yielding")
        await busy.until(runs(busy, 8))


async def test_the_own_process_counts_at_once_and_not_twice(busy: World) -> None:
    await busy.many(1_000)
    busy.dispatcher.in_flight["chat-1", "interactive"] = 6
    async with busy.database.connection() as conn:
        await conn.execute("insert into batch_interactive_load values ('', 'chat-1', 6, now())")  # its own report
    async with busy.worker(grace_seconds=1):
        await busy.until(runs(busy, 2))
        assert await steadily(busy, 2) == 2


async def test_another_models_load_is_no_reason_to_yield(busy: World) -> None:
    await busy.many(1_000)
    async with load(busy, 50, "chat-2"), busy.worker(grace_seconds=1):
        await busy.until(runs(busy, 8))
        assert await steadily(busy, 8) == 8


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"batch_yield_to_interactive": False, "batch_interactive_reserve": 4}, 8),
        ({"batch_shared_interactive_load": False}, 8),
        ({"batch_shared_interactive_load": False, "batch_interactive_reserve": 5}, 3),
        ({"batch_min_share": 2}, 2),
    ],
    ids=["yield-off", "shared-off", "reserve", "min-share"],
)
async def test_settings_decide_under_full_load(busy: World, settings: dict[str, Any], slots: int) -> None:
    busy.set(**settings)
    await busy.many(1_000)
    async with load(busy, 20), busy.worker(grace_seconds=1):
        await busy.until(runs(busy, slots))
        assert await steadily(busy, slots) == slots


async def test_a_guaranteed_share_lets_a_batch_end_under_steady_traffic(busy: World) -> None:
    busy.set(batch_min_share=1)
    job = await busy.many(5)
    async with load(busy, 100), busy.worker():
        assert (await busy.until_ended(job)).completed == 5


async def test_without_the_database_nothing_starts_and_what_runs_ends(
    database_url: str, listen_url: str, database: Database
) -> None:
    wire = Wire(database_url)
    async with (
        wire.url() as url,
        await Database.connect(url, listen_url=listen_url) as through,
        make_world(through) as world,
    ):
        world.set(batch_model_concurrency=4)
        world.upstream.decide = lambda _: Behaviour(latency=0.5)
        job = await world.many(40)
        async with world.worker():
            await world.until(runs(world, 4))
            wire.sever()
            started = world.upstream.count
            # What runs ends, and so does what was claimed ahead and started before the loss was noticed.
            while await one_more_starts(world, within=LIMITS_HOLD):
                assert world.upstream.count <= started + 4
            assert world.upstream.in_flight == 0
            assert not [received for received in world.upstream.requests if received.gone_at is not None]
            wire.cut = False
            assert (await world.until_ended(job, within=30)).completed == 40
        # Nothing ran twice: what ended meanwhile was recorded afterwards.
        assert world.upstream.count == 40


async def one_more_starts(world: World, within: float) -> bool:
    known = world.upstream.count
    try:
        await world.until(lambda: reached(world, known + 1), within=within)
    except TimeoutError:
        return False
    return True
