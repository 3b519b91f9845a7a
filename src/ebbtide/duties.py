"""What a process does beside the requests: duties, the one loop that repeats each of them, and their watch.

A duty is a `run_once(now) -> count` with an interval. Whatever goes wrong in one round is logged and the next one tries
again, so a duty never ends by itself; a task of `Duties` that does is told to the process by `ended`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import structlog

from ebbtide.clock import Clock
from ebbtide.errors import Unavailable

log = structlog.get_logger(__name__)
_JITTER: Final = (0.8, 1.2)
_LAST_SECONDS: Final = 2.0

Check = Callable[[], Awaitable[str | None]]
"""Asks whether something is well: None when it is, else what is wrong in words."""


class Bell(Protocol):
    """Wakes a resting duty early: `wait` is True once rung, False after `timeout` seconds."""

    async def wait(self, timeout: float) -> bool: ...


@dataclass(slots=True)
class Duty:
    """Something done again and again: `run_once(now)` tells how much it did; 0 lets it rest for `interval` seconds.

    One round may take up to `patience` seconds before the duty counts as stuck, and is cut off after `limit`. `steady`
    ones rest after each round, whatever it did. `at_end` is done once more when the duty is cancelled, if it takes no
    longer than two seconds.
    """

    name: str
    run_once: Callable[[datetime], Awaitable[int]]
    interval: float
    wake: Bell | None = None
    patience: float = 120.0
    limit: float | None = None
    steady: bool = False
    at_end: Callable[[datetime], Awaitable[object]] | None = None
    began_at: float = field(default_factory=time.monotonic)
    waits_since: float | None = None

    @property
    def is_stuck(self) -> bool:
        return time.monotonic() - self.began_at > self.interval * _JITTER[1] + self.patience

    async def check(self) -> str | None:
        """What is wrong, or None: for readiness."""
        if self.waits_since is not None:
            return f"could not be done for {time.monotonic() - self.waits_since:.0f} seconds"
        return "is stuck" if self.is_stuck else None


async def repeat(duty: Duty, clock: Clock, rng: random.Random) -> None:
    """Run a duty until cancelled. Whatever goes wrong in one round is logged, and the next one tries again."""
    try:
        while True:
            duty.began_at = time.monotonic()
            if await _round(duty, clock.now()) and not duty.steady:
                continue
            rest = duty.interval * rng.uniform(*_JITTER)
            if duty.wake is None:
                await asyncio.sleep(rest)
            else:
                await duty.wake.wait(rest)
    finally:
        await _last_round(duty, clock.now())


async def _round(duty: Duty, now: datetime) -> int:
    """A round's count, 0 where it failed. Of waiting for the database only the beginning is logged."""
    try:
        async with asyncio.timeout(duty.limit):
            count = await duty.run_once(now)
    except (Unavailable, TimeoutError) as error:
        if duty.waits_since is None:
            duty.waits_since = time.monotonic()
            log.warning("duty_waits", duty=duty.name, reason=str(error) or "no answer in time")
        return 0
    except Exception as error:
        duty.waits_since = duty.waits_since or time.monotonic()
        log.error("duty_failed", duty=duty.name, error=type(error).__name__, exc_info=error)
        return 0
    duty.waits_since = None
    return count


async def _last_round(duty: Duty, now: datetime) -> None:
    if duty.at_end is None:
        return
    try:
        async with asyncio.timeout(_LAST_SECONDS):
            await duty.at_end(now)
    except Exception as error:
        log.warning("duty_left_untidy", duty=duty.name, exc_info=error)


class Duties:
    """Running tasks by name. One that ends by itself is logged, its check says so, and `ended` is set."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.checks: dict[str, Check] = {}
        self._duties: list[Duty] = []
        self.ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = clock
        self._rng = rng

    def repeat(self, duty: Duty) -> asyncio.Task[None]:
        """Do `duty` again and again."""
        self._duties.append(duty)
        return self.start(duty.name, repeat(duty, self._clock, self._rng), duty.check)

    def loops(self) -> dict[str, float]:
        """When each duty last began a round, on the monotonic clock."""
        return {duty.name: duty.began_at for duty in self._duties}

    def start(self, name: str, work: Coroutine[Any, Any, None], check: Check | None = None) -> asyncio.Task[None]:
        """Run `work`, which goes on until it is stopped; `check` tells of trouble that does not end it."""
        return self.watch(asyncio.create_task(work, name=name), check)

    def watch(self, task: asyncio.Task[None], check: Check | None = None) -> asyncio.Task[None]:
        """Watch a task that runs already, by its name."""
        task.add_done_callback(self._tell_end)

        async def check_task() -> str | None:
            if task.done():
                return "has ended"
            return None if check is None else await check()

        self._tasks.append(task)
        self.checks[task.get_name()] = check_task
        return task

    async def stop(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tell_end(self, task: asyncio.Task[None]) -> None:
        self.ended.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("duty_failed", duty=task.get_name(), exc_info=task.exception())
