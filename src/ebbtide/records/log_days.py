"""The upkeep of the request log: a partition for each UTC day, made ahead and dropped whole once it is old.

The default partition is a safety net: what lands there stays until it is old and then goes by deletes in steps. Any
number of processes may do this at once; nobody waits for a lock on the log longer than a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

import asyncpg

from ebbtide.duties import Duty
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

AHEAD_DAYS: Final = 7
LOGS: Final = ("api_logs", "api_log_contents")
INTERVAL_SECONDS: Final = 60.0
LOOSE_FOR: Final = timedelta(minutes=2)  # figures of a minute that may still grow
MINUTES_FOR: Final = timedelta(hours=8)  # the shortest windows have bars of minutes
HOURS_FOR: Final = timedelta(days=8)  # those of a day and a week have bars of hours

_LOCK: Final = 0x656262746C6F  # "ebbtlo"
_WAIT: Final = "1s"
_STEP_ROWS: Final = 5_000
_Q = load_queries("ebbtide.records", "log_days.sql")


def keeping_log(database: Database, retention_days: Callable[[], int]) -> Duty:
    """The duty that keeps the log, with REQUEST_LOG_RETENTION_DAYS as it is at the time."""

    async def run_once(now: datetime) -> int:
        return await keep_log(database, now, retention_days())

    return Duty("request log", run_once, INTERVAL_SECONDS)


async def keep_log(database: Database, now: datetime, retention_days: int) -> int:
    """One round; returns how much is known to be left to do (0 also where another process is at it)."""
    await add_days(database, now)
    oldest = now - timedelta(days=retention_days)
    return await drop_days(database, oldest) + await prune(database, oldest) + await fold_counts(database, now)


async def add_days(database: Database, now: datetime) -> int:
    """Make the partitions of today and the days ahead; returns how many were made."""
    made = 0
    for log in LOGS:
        for ahead in range(AHEAD_DAYS + 1):
            made += await _change_days(database, "add_log_day", log, now.date() + timedelta(days=ahead))
    return made


async def drop_days(database: Database, oldest: datetime) -> int:
    """Drop the days that lie wholly before `oldest`; returns how many."""
    dropped = 0
    for log in LOGS:
        while await _change_days(database, "drop_log_day", log, oldest.date()):
            dropped += 1
    return dropped


async def missing_days(conn: Connection, today: date) -> list[date]:
    """Days from today on, as far as they are made ahead, that have no partition of their own."""
    rows = await conn.fetch(_Q["missing_days"], LOGS[0], today, today + timedelta(days=AHEAD_DAYS))
    return [row["day"] for row in rows]


async def prune(database: Database, oldest: datetime) -> int:
    """Delete a step of what is old and lies in no day's partition; returns how many rows."""
    pruned = 0
    for name in ("prune_rows", "prune_contents", "prune_counts"):
        async with database.transaction() as conn:
            pruned += _count(await conn.execute(_Q[name], oldest, _STEP_ROWS))
    return pruned


async def fold_counts(database: Database, now: datetime) -> int:
    """Fold a step of figures into minutes, hours and days; returns how many rows were folded."""
    folded = 0
    day = (now.astimezone(UTC) - HOURS_FOR).replace(hour=0, minute=0, second=0, microsecond=0)
    hour = (now - MINUTES_FOR).replace(minute=0, second=0, microsecond=0)
    minute = (now - LOOSE_FOR).replace(second=0, microsecond=0)
    steps = ((3, day, timedelta(days=1)), (2, hour, timedelta(hours=1)), (1, minute, timedelta(minutes=1)))
    for grain, before, length in steps:
        async with database.transaction() as conn:
            folded += await conn.fetchval(_Q["fold_counts"], grain, before, length, _STEP_ROWS)
    return folded


async def _change_days(database: Database, name: str, log: str, day: date) -> bool:
    """Make or drop one partition in a transaction of its own; False also when somebody else is in the way."""
    try:
        async with database.transaction() as conn:
            if not await conn.fetchval(_Q["try_keeping"], _LOCK):
                return False
            await conn.execute(_Q["limit_waiting"], _WAIT)
            return bool(await conn.fetchval(_Q[name], log, day))
    except asyncpg.LockNotAvailableError:
        return False  # the next round tries again


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
