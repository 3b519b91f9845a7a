"""Reading a stored file's bytes, whole or a range, a few chunks at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ebbtide.errors import NotFound
from ebbtide.files import store
from ebbtide.files.chunks import unpack
from ebbtide.files.leases import reading
from ebbtide.files.model import StoredFile
from ebbtide.storage.pool import Database

_AT_ONCE = 4


async def read_content(
    database: Database, file: StoredFile, start: int = 0, stop: int | None = None
) -> AsyncIterator[bytes]:
    """The file's raw bytes from `start` up to, not including, `stop`."""
    stop = file.size if stop is None else min(stop, file.size)
    at = start
    while at < stop:
        async with database.connection() as conn:
            rows = await store.read_chunks(conn, file.id, at, _AT_ONCE)
        if not rows:
            raise NotFound(f"The bytes of {file.id} are gone")
        for row in rows:
            raw = await asyncio.to_thread(unpack, row["data"])
            begin = at - row["raw_offset"]
            piece = raw[begin : begin + stop - at]
            if not piece:
                return
            at += len(piece)
            yield piece


async def download_file(
    database: Database, file: StoredFile, part: tuple[int, int], seconds: float
) -> AsyncIterator[bytes]:
    """The bytes of `part` (start, stop), under a lease that keeps them for `seconds` whatever is deleted meanwhile."""
    async with reading(database, seconds=seconds, file_id=file.id):
        async for piece in read_content(database, file, *part):
            yield piece


async def read_chunk(database: Database, file_id: str, chunk: int) -> bytes:
    """One raw chunk of a file; raises NotFound when it is gone."""
    async with database.connection() as conn:
        data = await store.read_chunk(conn, file_id, chunk)
    if data is None:
        raise NotFound(f"Chunk {chunk} of {file_id} is gone")
    return await asyncio.to_thread(unpack, data)
