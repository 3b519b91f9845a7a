"""Request lines by the place an item names: opened chunks are kept for a while, since neighbours run together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from ebbtide.files.download import read_chunk
from ebbtide.storage.pool import Database
from ebbtide.worker.lanes import Work

CACHE_BYTES: Final = 64 << 20

_Place = tuple[str, int]  # input file, chunk


class LineCache:
    """A cache of opened chunks, bounded in bytes; the one that was used longest ago goes first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._chunks: OrderedDict[_Place, bytes] = OrderedDict()
        self._opening: dict[_Place, asyncio.Task[bytes]] = {}
        self._size = 0

    async def line(self, work: Work) -> memoryview:
        """The bytes of a work's request line. Raises NotFound, Unavailable."""
        item = work.item
        place = (work.batch.input_id, item.chunk)
        chunk = self._chunks.get(place)
        if chunk is None:
            chunk = await self._open(place)
        else:
            self._chunks.move_to_end(place)
        return memoryview(chunk)[item.line_offset : item.line_offset + item.line_length]

    async def _open(self, place: _Place) -> bytes:
        """Read a chunk once, however many ask for it at the same time."""
        opening = self._opening.get(place)
        if opening is None:
            opening = self._opening[place] = asyncio.create_task(self._read(place))
            opening.add_done_callback(lambda _: self._opening.pop(place, None))
        return await asyncio.shield(opening)

    async def _read(self, place: _Place) -> bytes:
        chunk = await read_chunk(self._database, *place)
        self._chunks[place] = chunk
        self._size += len(chunk)
        while self._size > CACHE_BYTES and len(self._chunks) > 1:
            _, oldest = self._chunks.popitem(last=False)
            self._size -= len(oldest)
        return chunk
