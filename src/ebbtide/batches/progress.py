"""Reading batches: one, or a page of them. Counters and status lie on the row; nothing here counts anything."""

from __future__ import annotations

from ebbtide.accounts.store import Principal
from ebbtide.batches.model import Job, job_from_row
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files.model import Page
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "read.sql")


async def get_batch(database: Database, principal: Principal, batch_id: str) -> Job:
    """Raises NotFound for a batch that is unknown, deleted, or another account's (unless an administrator asks)."""
    async with database.connection() as conn:
        job = await find_batch(conn, batch_id)
    return visible(job, principal, batch_id)


def visible(job: Job | None, principal: Principal, batch_id: str) -> Job:
    """The job, if the principal may see it; raises NotFound."""
    if job is None or not principal.may_see(job.account_id):
        raise NotFound(f"No such batch: {batch_id}")
    return job


async def find_batch(conn: Connection, batch_id: str) -> Job | None:
    row = await conn.fetchrow(_Q["get_batch"], batch_id)
    return None if row is None else job_from_row(row)


async def read_batch(conn: Connection, batch_id: str) -> Job:
    """A batch that is known to exist."""
    job = await find_batch(conn, batch_id)
    if job is None:
        raise NotFound(f"No such batch: {batch_id}")
    return job


async def list_batches(database: Database, principal: Principal, after: str | None, limit: int) -> Page[Job]:
    """The account's batches, newest first. Raises InvalidRequest when `after` is not a batch of the account."""
    async with database.connection() as conn:
        if after is not None and not await conn.fetchval(_Q["knows_batch"], principal.account_id, after):
            raise InvalidRequest("after is not the id of one of your batches", param="after")
        rows = await conn.fetch(_Q["list_batches"], principal.account_id, after, limit + 1)
    jobs = [job_from_row(row) for row in rows]
    return Page(jobs[:limit], len(jobs) > limit)
