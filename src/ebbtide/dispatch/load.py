"""Telling the other processes how many interactive requests this one has in flight, so that batch work can give way.

A count is told as soon as it changes, half a second apart at most, and while it is not zero again and again: what has
not been told for five seconds counts for nothing.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from typing import Final

import structlog

from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.errors import EbbtideError
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.dispatch", "load.sql")
EVERY: Final = 0.5
_AGAIN: Final = 2.0
_END_SECONDS: Final = 2.0

log = structlog.get_logger(__name__)


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

    async def run(self) -> None:
        """Report twice a second until cancelled, then take everything back. A database that is away is waited for."""
        is_away = False
        try:
            while True:
                await asyncio.sleep(EVERY)
                try:
                    await self.report()
                except EbbtideError as error:
                    if not is_away:
                        log.warning("load_not_reported", reason=error.message)
                    is_away = True
                else:
                    is_away = False
        finally:
            await self._end_quietly()

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

    async def _end_quietly(self) -> None:
        """What cannot be taken back counts for nothing after a few seconds anyhow."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.end()
        except (EbbtideError, TimeoutError) as error:
            log.info("load_not_taken_back", reason=str(error) or "no answer from the database")

    def _is_due(self, model: str, count: int, now: float) -> bool:
        told, at = self._told.get(model, (0, float("-inf")))
        return count != told or (count > 0 and now - at >= _AGAIN)
