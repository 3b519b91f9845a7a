"""Leases of readers: while a download runs, nothing of what it reads is removed, whatever is deleted meanwhile.

They live on the database's clock. A reader that died leaves one behind that runs out by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.files", "leases.sql")
log = structlog.get_logger(__name__)


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
        try:
            async with database.transaction() as conn:
                await conn.execute(_Q["end_reading"], lease)
        except Unavailable as error:
            log.warning("read_lease_left", lease=lease, reason=error.message)
