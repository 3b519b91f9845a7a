"""Reading a stored file's bytes, by chunk, whole or a range, a few chunks at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ebbtide.errors import NotFound
from ebbtide.files import store
from ebbtide.files.chunks import RawChunk, unpack
from ebbtide.files.leases import reading
from ebbtide.files.model import StoredFile
from ebbtide.storage.pool import Database

_AT_ONCE = 4


async def stream_chunks(database: Database, file_id: str, start: int = 0) -> AsyncIterator[RawChunk]:
    """The file's chunks in order, opened, from the one that holds the raw offset `start`; each few in a short query."""
    at = start
    while True:
        async with database.connection() as conn:
            rows = await store.read_chunks(conn, file_id, at, _AT_ONCE)
        fresh = [row for row in rows if row["raw_offset"] + row["raw_length"] > at]
        for row in fresh:
            yield RawChunk(row["chunk"], row["raw_offset"], await asyncio.to_thread(unpack, row["data"]))
            at = row["raw_offset"] + row["raw_length"]
        if not fresh:
            return


async def read_content(
    database: Database, file: StoredFile, start: int = 0, stop: int | None = None
) -> AsyncIterator[bytes]:
    """The file's raw bytes from `start` up to, not including, `stop`. Raises NotFound when they are gone."""
    stop = file.size if stop is None else min(stop, file.size)
    at = start
    if at >= stop:
        return
    async for chunk in stream_chunks(database, file.id, start):
        begin = at - chunk.raw_offset
        piece = chunk.data[begin : begin + stop - at]
        at += len(piece)
        yield piece
        if at >= stop:
            return
    raise NotFound(f"The bytes of {file.id} are gone")


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
