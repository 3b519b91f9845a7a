"""Hedging: when a route does not begin to answer in time, a second one is asked too, and the first answer wins.

The loser's connection is closed; what it cost stays unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ebbtide.dispatch.course import Course, Way
from ebbtide.dispatch.outcome import Answered, Failed
from ebbtide.dispatch.streaming import Streaming

Begun: TypeAlias = Answered | Streaming | Failed


async def race(
    course: Course,
    way: Way,
    ask: Callable[[Course, Way], Awaitable[Begun]],
    wait: float,
    second: Callable[[], Way | None],
) -> tuple[Begun, bool]:
    """What the first or the second call came to, and, where both failed, whether another may be made.

    `second` enters another way, or tells None where there is none; it is asked after `wait` seconds.
    """
    running = {asyncio.ensure_future(ask(course, way)): way}
    try:
        await asyncio.wait(running, timeout=wait)
        if not any(task.done() for task in running):
            course.take_off(way)
            if (other := second()) is not None:
                running[asyncio.ensure_future(ask(course, other))] = other
        return await _first(course, running)
    finally:
        for task in running:
            await _lose(course, task)


async def _first(course: Course, running: dict[asyncio.Task[Begun], Way]) -> tuple[Begun, bool]:
    """The first answer or, where none comes, the last failure; what has ended is taken out of `running`."""
    more = True
    while True:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            begun = task.result()
            entered = running.pop(task)
            if not isinstance(begun, Failed):
                return begun, False
            more = course.note(entered, begun) and more
        if not running or not more:
            return begun, more


async def _lose(course: Course, task: asyncio.Task[Begun]) -> None:
    course.lose()
    task.cancel()
    (lost,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(lost, Streaming):
        await lost.close()
