"""How the routes stand over all processes: each tells what it finds every two seconds, where that has changed.

What has not changed is told again every ten seconds; what was not told for half a minute counts for nothing, so the
word of a process that died is soon forgotten.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from typing import Final

from ebbtide.dispatch.breaker import CircuitState
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.standing import RouteHealth
from ebbtide.duties import Duty
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.dispatch", "health.sql")
EVERY: Final = 2.0
_AGAIN: Final = 10.0
_PRUNED_EVERY: Final = 300.0


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """How one process finds one route. `opened_at`: since when its circuit there has not been closed."""

    process: str
    model: str
    route: str
    state: CircuitState
    opened_at: datetime | None
    failures: int
    opened: int
    closed: int
    in_flight: int
    most: int | None
    keys: int
    keys_resting: int
    last_error: str | None
    seen_at: datetime


HealthByRoute = Mapping[tuple[str, str], Sequence[ProcessHealth]]
"""By model id and route id; a route that no process has used is not in it."""


async def read_health(database: Database) -> HealthByRoute:
    """How every living process finds the routes. Raises Unavailable."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["read_health"])
    found: defaultdict[tuple[str, str], list[ProcessHealth]] = defaultdict(list)
    for row in rows:
        found[row["model"], row["route"]].append(ProcessHealth(**row))
    return found


class HealthReporter:
    """Tells what one process finds, under its name."""

    def __init__(self, database: Database, dispatcher: Dispatcher, process: str) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._process = process
        self._told: dict[tuple[str, str], tuple[RouteHealth, float]] = {}
        self._pruned_at = time.monotonic()

    def duty(self) -> Duty:
        """Telling every two seconds, and taking everything back at the end."""
        return Duty("route health", self._run_once, EVERY, steady=True, at_end=self._end)

    async def report(self) -> int:
        """Tell what changed, and the rest from time to time; returns of how many routes. Raises Unavailable."""
        now = time.monotonic()
        due = [one for one in self._dispatcher.health() if self._is_due(one, now)]
        if due:
            columns = [list(column) for column in zip(*map(astuple, due), strict=True)]
            async with self._database.connection() as conn:
                await conn.execute(_Q["report_health"], self._process, *columns)
            self._told.update({(one.model, one.route): (_lasting(one), now) for one in due})
        return len(due)

    async def _run_once(self, now: datetime) -> int:
        told = await self.report()
        if time.monotonic() - self._pruned_at > _PRUNED_EVERY:
            self._pruned_at = time.monotonic()
            async with self._database.connection() as conn:
                await conn.execute(_Q["prune_health"])
        return told

    async def _end(self, now: datetime) -> None:
        async with self._database.connection() as conn:
            await conn.execute(_Q["forget_health"], self._process)

    def _is_due(self, one: RouteHealth, now: float) -> bool:
        told, at = self._told.get((one.model, one.route), (None, float("-inf")))
        return _lasting(one) != told or now - at >= _AGAIN


def _lasting(one: RouteHealth) -> RouteHealth:
    """Without what changes by itself."""
    return replace(one, open_for=None)
