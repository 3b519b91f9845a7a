"""Reading batches: one, or a page of them. Counters and status lie on the row; nothing here counts anything.

Who gives a moment is also told why a batch waits and when it should finish. Lists find ids, by whatever they are
narrowed; one statement reads the batches of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.accounts.store import Principal
from ebbtide.batches.model import Job, job_from_row
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.page import Page
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "read.sql")


@dataclass(frozen=True, slots=True)
class Moment:
    """What decides why a batch waits: the time, and the lowest role that may run batches (BATCH_MIN_ROLE)."""

    now: datetime
    min_role: str


async def get_batch(database: Database, principal: Principal, batch_id: str, moment: Moment | None = None) -> Job:
    """Raises NotFound for a batch that is unknown, deleted, or another account's (unless an administrator asks)."""
    async with database.connection() as conn:
        job = await find_batch(conn, batch_id, moment)
    return visible(job, principal, batch_id)


def visible(job: Job | None, principal: Principal, batch_id: str) -> Job:
    """The job, if the principal may see it; raises NotFound."""
    if job is None or not principal.may_see(job.account_id):
        raise NotFound(f"No such batch: {batch_id}")
    return job


async def get_batches(conn: Connection, batch_ids: Sequence[str], moment: Moment | None) -> list[Job]:
    """Those of the batches that are there, whoever's they are."""
    asked = (None, None) if moment is None else (moment.now, moment.min_role)
    rows = await conn.fetch(_Q["get_batches"], batch_ids, *asked)
    return [job_from_row(row) for row in rows]


async def find_batch(conn: Connection, batch_id: str, moment: Moment | None = None) -> Job | None:
    return next(iter(await get_batches(conn, [batch_id], moment)), None)


async def read_batch(conn: Connection, batch_id: str) -> Job:
    """A batch that is known to exist."""
    job = await find_batch(conn, batch_id)
    if job is None:
        raise NotFound(f"No such batch: {batch_id}")
    return job


async def list_batches(
    database: Database, principal: Principal, after: str | None, limit: int, moment: Moment | None = None
) -> Page[Job]:
    """The account's batches, newest first. Raises InvalidRequest when `after` is not a batch of the account."""
    async with database.connection() as conn:
        if after is not None and not await conn.fetchval(_Q["knows_batch"], principal.account_id, after):
            raise InvalidRequest("after is not the id of one of your batches", param="after")
        rows = await conn.fetch(_Q["list_batches"], principal.account_id, after, limit + 1)
        return await read_page(conn, [row["id"] for row in rows], limit, moment)


async def read_page(conn: Connection, batch_ids: Sequence[str], limit: int, moment: Moment | None) -> Page[Job]:
    """The first `limit` of these batches, newest first; more follow where more are named."""
    jobs = await get_batches(conn, batch_ids[:limit], moment)
    return Page(sorted(jobs, key=lambda job: job.no, reverse=True), len(batch_ids) > limit)
