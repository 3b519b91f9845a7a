"""The background duties of a worker, and the one loop that repeats each of them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

import structlog

from ebbtide.clock import Clock
from ebbtide.errors import Unavailable

log = structlog.get_logger(__name__)
_JITTER: Final = (0.8, 1.2)


class Bell(Protocol):
    """Wakes a resting duty early: `wait` is True once rung, False after `timeout` seconds."""

    async def wait(self, timeout: float) -> bool: ...


@dataclass(slots=True)
class Duty:
    """Something done again and again: `run_once(now)` tells how much it did; 0 lets it rest for `interval` seconds.

    One round may take up to `patience` seconds before the duty counts as stuck.
    """

    name: str
    run_once: Callable[[datetime], Awaitable[int]]
    interval: float
    wake: Bell | None = None
    patience: float = 120.0
    began_at: float = field(default_factory=time.monotonic)

    @property
    def is_stuck(self) -> bool:
        return time.monotonic() - self.began_at > self.interval * _JITTER[1] + self.patience


async def repeat(duty: Duty, clock: Clock, rng: random.Random) -> None:
    """Run a duty until cancelled. Whatever goes wrong in one round is logged, and the next one tries again."""
    while True:
        duty.began_at = time.monotonic()
        if await _round(duty, clock.now()):
            continue
        rest = duty.interval * rng.uniform(*_JITTER)
        if duty.wake is None:
            await asyncio.sleep(rest)
        else:
            await duty.wake.wait(rest)


async def _round(duty: Duty, now: datetime) -> int:
    try:
        return await duty.run_once(now)
    except Unavailable as error:
        log.warning("duty_waits", duty=duty.name, reason=error.message)
    except Exception as error:
        log.error("duty_failed", duty=duty.name, error=type(error).__name__, exc_info=error)
    return 0
