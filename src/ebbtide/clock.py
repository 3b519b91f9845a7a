"""Time as an argument: production reads the system's clock, tests move their own.

Leases never use this clock; they live on the database's (see storage and worker.lease).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time as an aware UTC datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
