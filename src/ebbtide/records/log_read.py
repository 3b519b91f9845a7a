"""Reading the request log: its rows, newest first, a page at a time; and its figures, which are kept, never counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from ebbtide.page import Page
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

LONGEST_LOOKBACK: Final = timedelta(days=90)
_Q = load_queries("ebbtide.records", "log_read.sql")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows of the log: `start` is included, `end` is not; None sets no condition.

    `failed` tells rows that count as errors from those that do not; `error` is one error code.
    """

    start: datetime
    end: datetime | None = None
    source: str | None = None
    batch_id: str | None = None
    account_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    status: int | None = None
    error: str | None = None
    failed: bool | None = None


@dataclass(frozen=True, slots=True)
class LogRow:
    """One request, or one attempt of a batch's item; what is not known is None.

    `calls` counts the upstream calls made for it, which of a batch's attempt is not noted; `item`, `attempt` and
    `outcome` are a batch's.
    """

    id: int
    at: datetime
    request_id: str | None
    account_id: str
    account_name: str | None
    key_id: str
    key_name: str | None
    source: str
    target: str
    model: str
    route: str | None
    status_code: int | None
    error_code: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: Decimal | None
    first_token_ms: int | None
    total_ms: int | None
    batch_job_id: str | None
    calls: int | None
    streamed: bool | None
    item: int | None
    attempt: int | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over log rows. `cost_unknown` counts those whose cost is not known, which `cost_usd` leaves out."""

    requests: int = 0
    errors: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    cost_unknown: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What one key was charged on one UTC day."""

    day: date
    key_id: str
    key_name: str | None
    source: str
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What requests to one model used on one UTC day."""

    day: date
    model: str
    source: str
    figures: Figures


def reach_back(now: datetime, lookback: timedelta, start: datetime | None) -> datetime:
    """Where a list begins: `start` where one is given, which widens the lookback as far as 90 days."""
    return now - lookback if start is None else max(start, now - LONGEST_LOOKBACK)


async def list_requests(
    database: Database, which: Filter, before: tuple[datetime, int] | None, limit: int
) -> Page[LogRow]:
    """A page of the rows, newest first, from after the place (time, id) on."""
    at, number = before or (None, None)
    conditions = (which.source, which.batch_id, which.account_id, which.model, which.status, which.error, which.failed)
    values = (which.start, which.end, at, number, *conditions, limit + 1, which.key_id)
    async with database.transaction() as conn:
        await conn.execute(_Q["plan_for_values"])
        rows = await conn.fetch(_Q["list_requests"], *values)
    return Page([LogRow(**row) for row in rows[:limit]], len(rows) > limit)


async def get_request(database: Database, place: tuple[datetime, int], account_id: str | None = None) -> LogRow | None:
    """The row at a place (time, id), of any account or of one; None when there is none."""
    async with database.connection() as conn:
        row = await conn.fetchrow(_Q["get_request"], *place, account_id)
    return None if row is None else LogRow(**row)


async def see_one_moment(conn: Connection) -> None:
    """Make this transaction, which has done nothing yet, one that only reads and sees a single moment."""
    await conn.execute(_Q["one_moment"])


async def count_requests(
    conn: Connection, span: tuple[datetime, datetime], bar: timedelta, model: str | None
) -> dict[tuple[datetime, str], Figures]:
    """The figures of each bar that has any, by its beginning and source; `span` and `bar` fall on whole bars."""
    rows = await conn.fetch(_Q["count_requests"], *span, bar, model)
    return {(row["start"], row["source"]): _figures(list(row.values())[2:]) for row in rows}


async def list_usage(
    database: Database, account_id: str, first: date, last: date
) -> tuple[list[KeyUse], list[ModelUse]]:
    """An account's use from one UTC day to another, both included, newest first: by key, and by model."""
    async with database.connection() as conn:
        by_key = await conn.fetch(_Q["usage_by_key"], account_id, first, last)
        by_model = await conn.fetch(_Q["usage_by_model"], account_id, first, last)
    models = [ModelUse(row["day"], row["model"], row["source"], _figures(list(row.values())[3:])) for row in by_model]
    return [KeyUse(**row) for row in by_key], models


def _figures(values: Sequence[object]) -> Figures:
    return Figures(*values)  # type: ignore[arg-type]
