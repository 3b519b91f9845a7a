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
"""How much of a request, and of an answer, is kept."""

_Q = load_queries("ebbtide.records", "content.sql")
_packer = zstandard.ZstdCompressor(level=3)
_opener = zstandard.ZstdDecompressor()


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


def pack_content(request: bytes, answer: bytes, answer_bytes: int | None = None) -> Content:
    """Keep the beginnings. `answer_bytes` is the whole answer's size where `answer` is only a part of it.

    Compresses up to 2 MiB, so it is work for a thread when the bodies are large.
    """
    return Content(
        _packer.compress(request[:LONGEST_BYTES]),
        _packer.compress(answer[:LONGEST_BYTES]),
        len(request),
        len(answer) if answer_bytes is None else answer_bytes,
    )


def open_content(content: Content) -> tuple[bytes, bytes]:
    """The request's and the answer's bytes, as far as they were kept."""
    return _opener.decompress(content.request), _opener.decompress(content.answer)


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
