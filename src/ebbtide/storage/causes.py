"""Why the database cannot serve: in words for whoever asked, and in the log for whoever runs it.

A cause is logged once a minute at most, however many queries meet it, and without any of the data that a query held.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

import asyncpg
import structlog

log = structlog.get_logger(__name__)

Stage = Literal["connecting", "query"]

AWAY: Final = "The database cannot be reached at the moment"
SLOW: Final = "The database did not finish in time"
FULL: Final = "The database has no room left on its disk"
INTERVAL: Final = 60.0
_LONGEST_REASON: Final = 200


def in_words(error: BaseException, stage: Stage) -> str:
    """What a caller is told of `error`."""
    if isinstance(error, asyncpg.DiskFullError):
        return FULL
    if isinstance(error, asyncpg.QueryCanceledError) or (stage == "query" and isinstance(error, TimeoutError)):
        return SLOW
    return AWAY


class CauseLog:
    """Logs causes, each kind once in `interval` seconds of `clock`, with how often it came meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, interval: float = INTERVAL) -> None:
        self._clock = clock
        self._interval = interval
        self._told: dict[tuple[str, str | None, Stage], float] = {}
        self._untold: dict[tuple[str, str | None, Stage], int] = {}

    def tell(self, error: BaseException, stage: Stage) -> None:
        sqlstate = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
        kind, now = (type(error).__name__, sqlstate, stage), self._clock()
        if now - self._told.get(kind, -self._interval) < self._interval:
            self._untold[kind] = self._untold.get(kind, 0) + 1
            return
        self._told[kind] = now
        log.warning(
            "database_unavailable",
            cause=kind[0],
            sqlstate=sqlstate,
            stage=stage,
            reason=_reason(error),
            untold_before=self._untold.pop(kind, 0),
        )


def _reason(error: BaseException) -> str | None:
    """The server's or the system's own words; DETAIL and HINT, which may hold a row, are left out."""
    if isinstance(error, asyncpg.PostgresError):
        words = str(error.args[0]) if error.args else ""
    elif isinstance(error, OSError):
        words = error.strerror or str(error)
    else:
        return None
    return words[:_LONGEST_REASON] or None
