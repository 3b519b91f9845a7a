"""The statements of first-run set-up, one typed function each."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

Q: Final = load_queries("ebbtide.accounts", "setup.sql")


async def is_open(conn: Connection) -> bool:
    row = await conn.fetchrow(Q["is_open"])
    return row is not None and bool(row["open"])


async def add_code(conn: Connection, digest: bytes, now: datetime) -> bool:
    return await conn.fetchrow(Q["add_code"], digest, now) is not None


async def renew_code(conn: Connection, digest: bytes, now: datetime) -> bool:
    return await conn.fetchrow(Q["renew_code"], digest, now) is not None


async def holds(conn: Connection, digest: bytes) -> bool:
    row = await conn.fetchrow(Q["holds"], digest)
    return row is not None and bool(row["holds"])


async def use_code(conn: Connection, digest: bytes) -> bool:
    return await conn.fetchrow(Q["use_code"], digest) is not None
