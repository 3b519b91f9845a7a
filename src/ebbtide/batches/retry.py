"""When a failed request is tried again, and when it has had its last try. Pure."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Final

FIRST_DELAY: Final = 5.0
LONGEST_DELAY: Final = 900.0
MAX_ATTEMPTS: Final = 2_000  # about two weeks at the longest delay; what ends a batch that has no window


def backoff(attempts: int, retry_after: float | None, rng: random.Random) -> float:
    """Seconds until the next try after `attempts` failed ones: min(5·2ⁿ, 900) × U(0.5, 1), or longer if asked."""
    base = min(FIRST_DELAY * 2.0 ** min(attempts - 1, 16), LONGEST_DELAY)
    return max(base * rng.uniform(0.5, 1.0), retry_after or 0.0)


def wait_after_loss(attempts: int, rng: random.Random) -> float:
    """Seconds until the next try after the one that got lost with its worker, the last of `attempts`.

    None the first time, when the item is most likely not what killed the worker; from then on as after a failure, so
    that one that is does not keep the workers busy with dying.
    """
    return 0.0 if attempts == 1 else backoff(attempts - 1, None, rng)


def next_try(now: datetime, delay: float, attempts: int, window_end: datetime | None) -> datetime | None:
    """When to try again; None when that would be after the window, or there were tries enough."""
    if attempts >= MAX_ATTEMPTS:
        return None
    ready_at = now + timedelta(seconds=delay)
    if window_end is not None and ready_at >= window_end:
        return None
    return ready_at
