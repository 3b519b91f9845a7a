"""When an event is tried again, and how long an endpoint that only times out is left in peace. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

# Before the first try, the second, and so on, in seconds.
WAITS: Final = (0, 5, 30, 120, 600, 1_800, 7_200, 21_600)
ATTEMPTS: Final = len(WAITS)
_JITTER = (0.9, 1.1)
_TIMEOUTS = 3
_FIRST_REST = timedelta(minutes=10)
_LONGEST_REST = timedelta(hours=1)


def next_try(attempts: int, now: datetime, rng: random.Random) -> datetime | None:
    """When to try again after `attempts` tries that failed; None after the last one."""
    if attempts >= ATTEMPTS:
        return None
    return now + timedelta(seconds=WAITS[attempts] * rng.uniform(*_JITTER))


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint has been answering: timeouts one after another, how often it rested for them, and until when."""

    timeouts_in_row: int = 0
    rest_level: int = 0
    rest_until: datetime | None = None


def after_success() -> Health:
    return Health()


def after_failure(health: Health, now: datetime, *, timed_out: bool) -> Health:
    """Three timeouts in a row rest the endpoint, each further one for longer; an answer of any kind ends the row."""
    if not timed_out:
        return Health(0, health.rest_level, None)
    timeouts = health.timeouts_in_row + 1
    if timeouts < _TIMEOUTS:
        return Health(timeouts, health.rest_level, None)
    rest = min(_FIRST_REST * 2**health.rest_level, _LONGEST_REST)
    return Health(timeouts, min(health.rest_level + 1, 10), now + rest)
