"""Calls that wait for room: none is woken in vain, whoever is cancelled."""

from __future__ import annotations

import asyncio

from ebbtide.dispatch.waiting import Waiting


async def begun(waiting: Waiting, count: int) -> list[asyncio.Task[bool]]:
    tasks = [asyncio.create_task(waiting.wait("m", "interactive", 60.0)) for _ in range(count)]
    await asyncio.sleep(0)  # each has taken its place
    return tasks


async def test_a_wake_up_that_a_cancelled_call_got_goes_to_the_next() -> None:
    waiting = Waiting()
    first, second, third = await begun(waiting, 3)
    waiting.wake("m")
    first.cancel()  # before it could look
    assert await asyncio.wait_for(second, 5)
    assert (first.cancelled(), third.done()) == (True, False)
    waiting.wake("m")
    assert await asyncio.wait_for(third, 5)


async def test_a_call_that_is_cancelled_unwoken_leaves_its_place() -> None:
    waiting = Waiting()
    first, second = await begun(waiting, 2)
    first.cancel()
    await asyncio.sleep(0)
    waiting.wake("m")
    assert await asyncio.wait_for(second, 5)


async def test_time_that_is_over_is_told() -> None:
    waiting = Waiting()
    assert not await waiting.wait("m", "batch", 0.0)
    waiting.wake("m")
