"""The settle's statements, one typed function each. Rows are tuples in the order of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "settle.sql")

ItemKey = tuple[int, int]  # batch, item


class CompletedRow(NamedTuple):
    """An item that succeeded, and where its answer lies."""

    batch_no: int
    id: int
    epoch: int
    segment: int
    answer_offset: int
    answer_length: int
    request_id: str


class FailedRow(NamedTuple):
    """An item that failed for good; `request_id` None when its outcome was lost."""

    batch_no: int
    id: int
    epoch: int
    error_code: str
    error_message: str
    error_status: int
    request_id: str | None


class RetriedRow(NamedTuple):
    """An item that waits for another try from `ready_at` on; `counted` is 1 when a try was used up."""

    batch_no: int
    id: int
    epoch: int
    error_code: str
    error_message: str
    error_status: int
    counted: int
    ready_at: datetime


class HandedBackRow(NamedTuple):
    """An item that was claimed and never sent."""

    batch_no: int
    id: int
    epoch: int


class AttemptRow(NamedTuple):
    """One try, for the record. Token counts and cost are None where they are unknown, so is how long it took."""

    batch_no: int
    item_id: int
    claim_epoch: int
    attempt: int
    model: str
    route: str | None
    outcome: str
    seconds: float | None
    status_code: int | None
    error_code: str | None
    request_id: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: Decimal | None


class BatchDelta(NamedTuple):
    """What a settle adds to one batch's counters."""

    batch_no: int
    completed: int
    failed: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: Decimal
    unknown: int
    result_bytes: int


class QueueDelta(NamedTuple):
    """Items of one batch and model that left running; `queued` of them wait again, the first from `next_ready_at`."""

    batch_no: int
    model: str
    released: int
    queued: int
    next_ready_at: datetime


class LockedBatch(NamedTuple):
    """A locked batch: whether nothing of it starts any more, when its window ends, the raw bytes of its answers."""

    stops: bool
    expires_at: datetime | None
    result_bytes: int


async def lock_batches(conn: Connection, batch_nos: Sequence[int]) -> dict[int, LockedBatch]:
    """Locks the batches that still exist, in order."""
    rows = await conn.fetch(_Q["lock_batches"], batch_nos)
    return {row["no"]: LockedBatch(row["stops"], row["expires_at"], row["result_bytes"]) for row in rows}


async def mark_full(conn: Connection, batch_nos: Sequence[int]) -> None:
    await conn.execute(_Q["mark_full"], batch_nos)


async def add_segments(conn: Connection, segments: Sequence[tuple[int, bytes]]) -> list[int]:
    """Stores (batch, compressed answers); returns their ids in the same order."""
    return [row["id"] for row in await conn.fetch(_Q["add_segments"], *_columns(segments))]


async def drop_segments(conn: Connection, segments: Sequence[tuple[int, int]]) -> None:
    """Removes (batch, id) that no item refers to."""
    if segments:
        await conn.execute(_Q["drop_segments"], *_columns(segments))


async def complete(conn: Connection, rows: Sequence[CompletedRow]) -> set[ItemKey]:
    """Returns the items that were still this worker's; likewise below."""
    return await _move(conn, "complete", rows)


async def fail(conn: Connection, rows: Sequence[FailedRow]) -> set[ItemKey]:
    return await _move(conn, "fail", rows)


async def retry(conn: Connection, rows: Sequence[RetriedRow]) -> set[ItemKey]:
    return await _move(conn, "retry", rows)


async def hand_back(conn: Connection, rows: Sequence[HandedBackRow]) -> set[ItemKey]:
    return await _move(conn, "hand_back", rows)


async def add_attempts(conn: Connection, worker_no: int, rows: Sequence[AttemptRow], finished_at: datetime) -> None:
    if rows:
        await conn.execute(_Q["add_attempts"], worker_no, finished_at, *_columns(rows))


async def count_settled(conn: Connection, deltas: Sequence[BatchDelta]) -> None:
    if deltas:
        await conn.execute(_Q["count_settled"], *_columns(deltas))


async def count_released(conn: Connection, deltas: Sequence[QueueDelta]) -> None:
    if deltas:
        await conn.execute(_Q["count_released"], *_columns(deltas))


async def finish_batches(conn: Connection, batch_nos: Sequence[int], now: datetime) -> dict[int, str]:
    """Ends those of which every item is final; returns their phase by number."""
    rows = await conn.fetch(_Q["finish_batches"], batch_nos, now)
    finished = {row["no"]: row["phase"] for row in rows}
    if finished:
        await conn.execute(_Q["drop_queues"], list(finished))
    return finished


async def _move(conn: Connection, verb: str, rows: Sequence[tuple[Any, ...]]) -> set[ItemKey]:
    if not rows:
        return set()
    moved = await conn.fetch(_Q[verb], *_columns(rows))
    return {(row["batch_no"], row["id"]) for row in moved}


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
