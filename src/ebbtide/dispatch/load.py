"""Telling the other processes how many interactive requests this one has in flight, so that batch work can give way.

A count is told as soon as it changes, half a second apart at most, and while it is not zero again and again: what has
not been told for five seconds counts for nothing.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from datetime import datetime
from typing import Final

from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.duties import Duty
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.dispatch", "load.sql")
EVERY: Final = 0.4  # half a second with the jitter of duties
_AGAIN: Final = 2.0


def process_name() -> str:
    """A name for this process that no other one has, also after a restart under the same process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class LoadReporter:
    """Reports one process's counts under its name."""

    def __init__(self, database: Database, dispatcher: Dispatcher, process: str) -> None:
        self._database = database
        self._dispatcher = dispatcher
        self._process = process
        self._told: dict[str, tuple[int, float]] = {}

    def duty(self) -> Duty:
        """Reporting twice a second, and taking everything back at the end."""
        return Duty("interactive load", self._run_once, EVERY, steady=True, at_end=self._end)

    async def report(self) -> int:
        """Tell what changed, and again what is not zero; returns how many models. Raises Unavailable."""
        now = time.monotonic()
        counts = {m: n for (m, source), n in list(self._dispatcher.in_flight.items()) if source == "interactive"}
        due = {model: count for model, count in counts.items() if self._is_due(model, count, now)}
        if due:
            async with self._database.connection() as conn:
                await conn.execute(_Q["report_load"], self._process, list(due), list(due.values()))
            self._told.update({model: (count, now) for model, count in due.items()})
        return len(due)

    async def end(self) -> None:
        """Take everything back, and what long gone processes have left. Raises Unavailable."""
        async with self._database.connection() as conn:
            await conn.execute(_Q["forget_load"], self._process)
            await conn.execute(_Q["prune_load"])

    async def _run_once(self, now: datetime) -> int:
        return await self.report()

    async def _end(self, now: datetime) -> None:
        """What cannot be taken back counts for nothing after a few seconds anyhow."""
        await self.end()

    def _is_due(self, model: str, count: int, now: float) -> bool:
        told, at = self._told.get(model, (0, float("-inf")))
        return count != told or (count > 0 and now - at >= _AGAIN)
