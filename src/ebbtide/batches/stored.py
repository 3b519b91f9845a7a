"""Reading a batch's stored requests with their answers, for whoever may look into them: a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ebbtide.batches.model import Job
from ebbtide.batches.results import Result, with_answers
from ebbtide.files.download import read_chunk
from ebbtide.page import Page
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

PAGE_BYTES: Final = 8 << 20
_Q = load_queries("ebbtide.batches", "read.sql")


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """One request of a batch: its model, its line as it was submitted, and what became of it so far."""

    model: str
    line: bytes
    result: Result


async def list_stored(database: Database, job: Job, after: int | None, limit: int) -> Page[StoredRequest]:
    """Up to `limit` requests from after item `after` on; a page also ends at about 8 MiB. Raises NotFound when their
    lines are gone.
    """
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_stored"], job.no, after or 0, limit + 1)
    return await read_stored(database, job, rows, limit)


async def read_stored(database: Database, job: Job, rows: Sequence[Any], limit: int) -> Page[StoredRequest]:
    """A page of rows of items, of which one more than `limit` may have been read, with their lines and answers."""
    kept = _fitting(rows[:limit])
    async with database.connection() as conn:
        results = await with_answers(conn, job.no, kept)
    lines = await _read_lines(database, job.input_id, kept)
    stored = [StoredRequest(row["model"], line, it) for row, line, it in zip(kept, lines, results, strict=True)]
    return Page(stored, len(rows) > len(kept))


def _fitting(rows: Sequence[Any]) -> Sequence[Any]:
    """The first rows whose lines and answers fit a page; always at least one."""
    size = 0
    for index, row in enumerate(rows):
        size += row["line_length"] + (row["answer_length"] or 0)
        if size > PAGE_BYTES and index:
            return rows[:index]
    return rows


async def _read_lines(database: Database, input_id: str, rows: Sequence[Any]) -> list[bytes]:
    """The rows' lines; they lie in order, so a chunk is opened once and let go before the next."""
    lines, number, chunk = [], None, b""
    for row in rows:
        if row["chunk"] != number:
            number, chunk = row["chunk"], await read_chunk(database, input_id, row["chunk"])
        lines.append(chunk[row["line_offset"] : row["line_offset"] + row["line_length"]])
    return lines
