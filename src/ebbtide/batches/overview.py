"""Everyone's batches, their sums and the workers, for administrators. Counters lie on the rows; no item is counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from asyncpg import Record

from ebbtide.batches.browse import NamedJob, read_named_page
from ebbtide.batches.intake_store import count_unfinished
from ebbtide.batches.progress import Moment
from ebbtide.errors import InvalidRequest
from ebbtide.files.store import stored_bytes
from ebbtide.page import Page
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "overview.sql")


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which batches, and which page of them; None does not narrow."""

    after: str | None
    account_id: str | None
    status: str | None
    target: str | None
    model: str | None
    search: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over batches: requests by outcome, `failed` with the expired ones; USD as far as it is known."""

    account_id: str | None
    batches: int
    total: int
    succeeded: int
    failed: int
    expired: int
    cancelled: int
    not_finished: int
    cost_usd: Decimal
    cost_unknown_attempts: int
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    cache_unrecorded_batches: int


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that has not ended, how many requests it may have in flight (`slots`), and how many it holds, those that
    it keeps ready included (`running`); `alive` while its lease holds.
    """

    no: int
    host: str
    pid: int
    version: str
    schema_version: int
    surfaces: list[str]
    targets: list[str]
    started_at: datetime
    lease_until: datetime
    alive: bool
    slots: int
    running: int


@dataclass(frozen=True, slots=True)
class InUse:
    """What an account has: any batch at all, unfinished batches and their unfinished requests, bytes of input files."""

    has_batches: bool
    batches: int
    requests: int
    file_bytes: int


async def list_jobs(database: Database, query: JobQuery, moment: Moment) -> Page[NamedJob]:
    """Newest first. Raises InvalidRequest for a cursor that is no batch's."""
    async with database.connection() as conn:
        if query.after is not None and not await conn.fetchval(_Q["knows_job"], query.after):
            raise InvalidRequest("after is not the id of a batch", param="after")
        filters = (query.after, query.account_id, query.status, query.target, query.model, query.search)
        rows = await conn.fetch(_Q["list_jobs"], *filters, query.limit + 1)
        return await read_named_page(conn, rows, query.limit, moment)


async def read_in_use(database: Database, account_id: str) -> InUse:
    """What an account has of batches now."""
    async with database.connection() as conn:
        has_batches = bool(await conn.fetchval(_Q["has_batches"], account_id))
        unfinished = await count_unfinished(conn, account_id)
        weight = await stored_bytes(conn, account_id)
    return InUse(has_batches, unfinished.batches, unfinished.requests, weight)


async def summarise(database: Database, accounts: int) -> tuple[Sums, list[Sums]]:
    """Over all batches; and for each of the `accounts` accounts whose batches cost most."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["summarise"], accounts)
    sums = [_sums(row) for row in rows]
    return sums[0], sums[1:]


async def list_workers(database: Database, after: int, limit: int) -> Page[WorkerRow]:
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_workers"], after, limit + 1)
    workers = [WorkerRow(**dict(row)) for row in rows]
    return Page(workers[:limit], len(workers) > limit)


def _sums(row: Record) -> Sums:
    values: dict[str, Any] = {name: value or 0 if name in _COUNTS else value for name, value in row.items()}
    return Sums(**values)


# Null where there is no batch at all.
_COUNTS = frozenset(Sums.__dataclass_fields__) - {"account_id", "cost_usd", "cached_tokens"}
