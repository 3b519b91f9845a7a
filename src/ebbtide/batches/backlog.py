"""How much waits in the whole deployment, for those who watch it: read once every few seconds, however many ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.batches.waiting import list_alerted
from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

log = structlog.get_logger(__name__)
_Q = load_queries("ebbtide.batches", "backlog.sql")
_KEPT_SECONDS: Final = 5.0
_LONGEST_READ: Final = 3.0


@dataclass(frozen=True, slots=True)
class Queue:
    """A model's requests that wait and run; `oldest` is the age in seconds of the oldest batch that waits."""

    model: str
    queued: int
    running: int
    oldest: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits; ages are in seconds, 0 where nothing waits. `batches` counts the unfinished ones by phase."""

    queues: Sequence[Queue]
    batches: dict[str, int]
    oldest_sealing: float
    webhook_events: int
    oldest_webhook: float
    workers: int
    waiting_models: Sequence[str]


class BacklogSource:
    """Reads the backlog, one reader at a time; what was read, or could not be, holds for five seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._backlog: Backlog | None = None

    async def current(self) -> Backlog | None:
        """None while it cannot be read."""
        async with self._lock:
            if time.monotonic() - self._read_at > _KEPT_SECONDS:
                self._backlog = await self._read()
                self._read_at = time.monotonic()
            return self._backlog

    async def _read(self) -> Backlog | None:
        try:
            async with asyncio.timeout(_LONGEST_READ):
                return await read_backlog(self._database)
        except (Unavailable, TimeoutError) as error:
            log.warning("backlog_unknown", reason=str(error) or "no answer in time")
            return None


async def read_backlog(database: Database) -> Backlog:
    """Raises Unavailable."""
    async with database.connection() as conn:
        queues = [Queue(**row) for row in await conn.fetch(_Q["queues"])]
        phases = {row["phase"]: row for row in await conn.fetch(_Q["phases"])}
        webhooks = await conn.fetchrow(_Q["webhooks"])
        workers = await conn.fetchval(_Q["workers"])
        waiting = await list_alerted(conn)
    assert webhooks is not None
    return Backlog(
        queues=queues,
        batches={phase: row["batches"] for phase, row in phases.items()},
        oldest_sealing=phases["sealing"]["oldest"] if "sealing" in phases else 0.0,
        webhook_events=webhooks["events"],
        oldest_webhook=webhooks["oldest"],
        workers=workers,
        waiting_models=waiting,
    )
