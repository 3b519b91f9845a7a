"""Time as an argument: production reads the system's clock, tests move their own.

Leases never use this clock; they live on the database's (see storage and worker.lease).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time as an aware UTC datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def move(self, **delta: float) -> datetime:
        """Go forward by `timedelta(**delta)` and return the new time."""
        self._now += timedelta(**delta)
        return self._now
