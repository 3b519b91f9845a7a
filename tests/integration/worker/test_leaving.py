"""A worker that leaves in good order: nothing stays behind under its name."""

from __future__ import annotations

import asyncio

from tests.domain import Hands, World


async def test_what_it_still_holds_is_taken_over_at_once(world: World) -> None:
    """As after a claim that was broken off at the moment of its commit, of which the worker never learned."""
    job = await world.many(3)
    lease = world.lease(seconds=600)
    hands = Hands(world, await lease.register())
    assert len(await hands.claim()) == 3
    await lease.end()
    assert await world.take_over() == 3
    assert set((await world.states(job)).values()) == {"queued"}
    assert await world.value("select ended_at is not null from workers where no = $1", lease.worker_no)


async def test_it_waits_for_its_own_last_transaction(world: World) -> None:
    await world.many(3)
    lease = world.lease(seconds=600)
    hands = Hands(world, await lease.register())
    async with world.database.transaction() as conn:
        await conn.execute("select no from workers where no = $1 for key share", lease.worker_no)
        ending = asyncio.create_task(lease.end())
        waits = "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%workers%')"
        await world.until(lambda: world.value(waits))
        await hands.claim()
    await ending
    assert await world.take_over() == len(hands.running) == 3
