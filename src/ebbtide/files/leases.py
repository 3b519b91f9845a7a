"""Leases of readers: while a download runs, nothing of what it reads is removed, whatever is deleted meanwhile.

They live on the database's clock. A reader that was cut off still ends its own; one that died leaves it behind, and it
runs out by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.files", "leases.sql")
log = structlog.get_logger(__name__)
_ending: set[asyncio.Task[None]] = set()  # the event loop itself holds its tasks only weakly


@asynccontextmanager
async def reading(
    database: Database, *, seconds: float, file_id: str | None = None, batch_no: int | None = None
) -> AsyncIterator[None]:
    """Hold a lease on one file or on one batch's results, for `seconds` at most. Raises Unavailable."""
    async with database.transaction() as conn:
        lease: int = await conn.fetchval(_Q["begin_reading"], batch_no, file_id, seconds)
    try:
        yield
    finally:
        # Shielded: a client that has all it came for hangs up at once, which cancels what still runs for it.
        ending = asyncio.create_task(_end_reading(database, lease), name=f"end read lease {lease}")
        _ending.add(ending)
        ending.add_done_callback(_ending.discard)
        await asyncio.shield(ending)


async def _end_reading(database: Database, lease: int) -> None:
    try:
        async with database.transaction() as conn:
            await conn.execute(_Q["end_reading"], lease)
    except Unavailable as error:
        log.warning("read_lease_left", lease=lease, reason=error.message)
