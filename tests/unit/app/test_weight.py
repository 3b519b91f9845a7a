"""Large bodies: off the event loop, and only a few very large ones at a time."""

from __future__ import annotations

import asyncio
import threading

from ebbtide.weight import AT_ONCE, LARGE, VERY_LARGE, by_weight, in_turn


async def test_only_large_work_goes_to_a_thread() -> None:
    here = threading.get_ident()
    assert await by_weight(LARGE, threading.get_ident) == here
    assert await by_weight(LARGE + 1, threading.get_ident) != here


async def test_very_large_bodies_wait_for_each_other_and_small_ones_for_nobody() -> None:
    inside = 0
    most = 0
    full, leave = asyncio.Event(), asyncio.Event()

    async def large() -> None:
        nonlocal inside, most
        async with in_turn(VERY_LARGE + 1):
            inside += 1
            most = max(most, inside)
            if inside == AT_ONCE:
                full.set()
            await leave.wait()
            inside -= 1

    tasks = [asyncio.create_task(large()) for _ in range(3 * AT_ONCE)]
    async with asyncio.timeout(10):
        await full.wait()
        async with in_turn(VERY_LARGE):
            assert inside == AT_ONCE
        leave.set()
        await asyncio.gather(*tasks)
    assert most == AT_ONCE
