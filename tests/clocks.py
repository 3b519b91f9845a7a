"""Time as tests tell it."""

from __future__ import annotations

from datetime import datetime, timedelta


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
