"""Reading what became of a batch's requests, in submission order, finished or not, a page or a stream at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from ebbtide.batches.model import Job
from ebbtide.files.chunks import unpack
from ebbtide.page import Page
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "read.sql")
PAGE_BYTES: Final = 8 << 20
_STREAM_ITEMS = 2_000
_SEGMENT_GROUP = 16


class Result(msgspec.Struct, frozen=True, gc=False):
    """One request's outcome so far. `answer` is the endpoint's JSON, there for completed ones only.

    `attempts` counts its tries so far.
    """

    id: int
    custom_id: str
    state: str
    request_id: str | None
    answer: bytes | None
    error_code: str | None
    error_message: str | None
    error_status: int | None
    attempts: int = 0


async def list_results(database: Database, job: Job, after: int | None, limit: int) -> Page[Result]:
    """Up to `limit` results from after item `after` on; a page also ends at about 8 MiB of answers."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_items"], job.no, after or 0, limit + 1)
        kept = _fitting(rows[:limit])
        results = await with_answers(conn, job.no, kept)
    return Page(results, len(rows) > len(kept))


async def stream_results(database: Database, job: Job) -> AsyncIterator[list[Result]]:
    """Every result of the batch in slices that stay small; the next one is read while this one is used."""
    reading = asyncio.create_task(_read_slice(database, job, 0))
    try:
        while results := await reading:
            reading = asyncio.create_task(_read_slice(database, job, results[-1].id))
            yield results
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read_slice(database: Database, job: Job, after: int) -> list[Result]:
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_items"], job.no, after, _STREAM_ITEMS)
        return await with_answers(conn, job.no, _fitting(rows))


def _fitting(rows: Sequence[Any]) -> Sequence[Any]:
    """The first rows whose answers fit a page; always at least one."""
    size = 0
    for index, row in enumerate(rows):
        size += row["answer_length"] or 0
        if size > PAGE_BYTES and index:
            return rows[:index]
    return rows


async def with_answers(conn: Connection, batch_no: int, rows: Sequence[Any]) -> list[Result]:
    """Open the segments a few at a time and keep only the slices that are asked for."""
    by_segment: dict[int, list[Any]] = {}
    for row in rows:
        if row["segment"] is not None:
            by_segment.setdefault(row["segment"], []).append(row)
    wanted = sorted(by_segment)
    answers: dict[int, bytes] = {}
    for start in range(0, len(wanted), _SEGMENT_GROUP):
        segments = await conn.fetch(_Q["read_segments"], batch_no, wanted[start : start + _SEGMENT_GROUP])
        answers.update(await asyncio.to_thread(_cut_answers, segments, by_segment))
    return [_result(row, answers.get(row["id"])) for row in rows]


def _cut_answers(segments: Sequence[Any], by_segment: dict[int, list[Any]]) -> dict[int, bytes]:
    answers = {}
    for segment in segments:
        raw = unpack(segment["data"])
        for row in by_segment[segment["id"]]:
            begin = row["answer_offset"]
            answers[row["id"]] = raw[begin : begin + row["answer_length"]]
    return answers


def _result(row: Any, answer: bytes | None) -> Result:
    return Result(
        row["id"],
        row["custom_id"],
        row["state"],
        row["request_id"],
        answer,
        row["error_code"],
        row["error_message"],
        row["error_status"],
        row["attempts"],
    )
