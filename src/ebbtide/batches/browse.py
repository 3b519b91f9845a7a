"""Batches as the console looks through them: an account's by name and group, one's requests by outcome and errors by
code. Lists count nothing; errors are counted for one batch at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from asyncpg import Record

from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, read_page
from ebbtide.batches.stored import StoredRequest, read_stored
from ebbtide.errors import InvalidRequest
from ebbtide.page import Page
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = {**load_queries("ebbtide.batches", "read.sql"), **load_queries("ebbtide.batches", "browse.sql")}
GROUPS: Final = ("processing", "completed", "with_issues", "cancelled")
OUTCOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "succeeded": ("completed",),
    "failed": ("failed",),
    "expired": ("expired",),
    "cancelled": ("cancelled",),
    "unfinished": ("queued", "running"),
}
"""Outcomes that requests are filtered by, and the states that have them."""


@dataclass(frozen=True, slots=True)
class Browse:
    """Which batches of an account, and which page of them; None does not narrow."""

    account_id: str
    after: str | None
    group: str | None
    search: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class ItemBrowse:
    """Which requests of a batch, and which page of them; None does not narrow."""

    after: int | None
    outcome: str | None
    search: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A batch and what it is called, in the console or by its metadata."""

    job: Job
    name: str | None


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Requests that ended alike without an answer, and one of them with its message."""

    state: str
    code: str | None
    status: int | None
    requests: int
    custom_id: str
    message: str | None


async def browse_batches(database: Database, browse: Browse, moment: Moment) -> Page[NamedJob]:
    """Newest first. Raises InvalidRequest for a cursor that is not a batch's of the account."""
    async with database.connection() as conn:
        if browse.after is not None and not await conn.fetchval(_Q["knows_batch"], browse.account_id, browse.after):
            raise InvalidRequest("after is not the id of one of your batches", param="after")
        values = (browse.account_id, browse.after, browse.group, browse.search, browse.limit + 1)
        rows = await conn.fetch(_Q["browse_batches"], *values)
        return await read_named_page(conn, rows, browse.limit, moment)


async def read_named_page(conn: Connection, rows: Sequence[Record], limit: int, moment: Moment) -> Page[NamedJob]:
    """The first `limit` batches of rows of id and name, newest first; more follow where there are more rows."""
    names = {row["id"]: row["name"] for row in rows}
    page = await read_page(conn, list(names), limit, moment)
    return Page([NamedJob(job, names[job.id]) for job in page.items], page.has_more)


async def batch_name(database: Database, job: Job) -> str | None:
    async with database.connection() as conn:
        name: str | None = await conn.fetchval(_Q["batch_name"], job.no)
    return name


async def browse_items(database: Database, job: Job, browse: ItemBrowse) -> Page[StoredRequest]:
    """In submission order; a page also ends at about 8 MiB. Raises NotFound when the request lines are gone."""
    states: Sequence[str] | None = None if browse.outcome is None else OUTCOMES[browse.outcome]
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["browse_items"], job.no, browse.after or 0, states, browse.search, browse.limit + 1)
    return await read_stored(database, job, rows, browse.limit)


async def count_errors(database: Database, job: Job) -> list[ErrorGroup]:
    """The most frequent first, a hundred at most."""
    async with database.connection() as conn:
        return [ErrorGroup(**dict(row)) for row in await conn.fetch(_Q["count_errors"], job.no)]
