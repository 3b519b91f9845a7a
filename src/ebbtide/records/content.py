"""What was said in requests that callers made directly: kept only while DB_STORE_FULL_CONTENT is on, bounded, packed.

It is never written to a log line, an error or an alert. What a batch said is kept with the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import zstandard

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

LONGEST_BYTES: Final = 1 << 20
"""How much is kept of a request, and of an answer."""

_Q = load_queries("ebbtide.records", "content.sql")


@dataclass(frozen=True, slots=True)
class Content:
    """A request and its answer as stored: packed, with the sizes of the whole."""

    request: bytes
    answer: bytes
    request_bytes: int
    answer_bytes: int

    @property
    def truncated(self) -> bool:
        """Whether only the beginning of one is kept."""
        return max(self.request_bytes, self.answer_bytes) > LONGEST_BYTES


class Packer:
    """Packs contents one after the other, in one thread: up to 2 MiB each, so it is work for one of their own."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(level=3)

    def pack(self, request: bytes, answer: bytes, request_bytes: int, answer_bytes: int) -> Content:
        """Keep the beginnings. The sizes are those of the whole, of which the bytes may be a part."""
        pack = self._zstd.compress
        return Content(pack(request[:LONGEST_BYTES]), pack(answer[:LONGEST_BYTES]), request_bytes, answer_bytes)


def open_content(content: Content) -> tuple[bytes, bytes]:
    """The request's and the answer's bytes, as far as they were kept."""
    opener = zstandard.ZstdDecompressor()
    return opener.decompress(content.request), opener.decompress(content.answer)


async def add_contents(conn: Connection, rows: Sequence[tuple[datetime, str, Content]]) -> None:
    """Store (time, request id, content), in the transaction that writes the log rows of the same time and id."""
    if rows:
        values = [(at, name, c.request, c.answer, c.request_bytes, c.answer_bytes) for at, name, c in rows]
        await conn.execute(_Q["add_contents"], *(list(column) for column in zip(*values, strict=True)))


async def get_content(conn: Connection, at: datetime, request_id: str) -> Content | None:
    """What was said in the request with this log row, if that was kept."""
    row = await conn.fetchrow(_Q["get_content"], at, request_id)
    return None if row is None else Content(**row)


async def drop_contents(
    conn: Connection, account_id: str, since: datetime | None, limit: int
) -> tuple[int, datetime | None]:
    """Remove what an account said in up to `limit` requests from `since` on: how many, and where to go on, if anywhere.

    Their log rows stay.
    """
    row = await conn.fetchrow(_Q["drop_contents"], account_id, since, limit)
    assert row is not None
    return row["removed"], row["reached"] if row["seen"] == limit else None
