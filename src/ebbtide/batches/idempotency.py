"""Submitting safely twice: a key belongs to an account and stands for the one create it was first sent with.

It is stored in that create's transaction, remembered until a day after its batch ended (the trigger that sees the end
says when), and for a day after its batch was deleted it answers that the batch is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, find_batch
from ebbtide.errors import Conflict, Gone
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "idempotency.sql")
CONFLICT: Final = "idempotency_conflict"
REMEMBERED_AFTER_DELETION: Final = timedelta(days=1)
_STEP_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Once:
    """The key sent with a create, and the digest of that create."""

    key: str
    digest: bytes


class KeyTaken(Exception):  # an answer between the statements of this room, never the caller's
    """The key stands for another create, which may have been stored a moment ago."""


async def knows_key(database: Database, account_id: str, key: str, now: datetime) -> bool:
    async with database.connection() as conn:
        return await conn.fetchrow(_Q["find_key"], account_id, key, now) is not None


async def find_replay(database: Database, account_id: str, once: Once, moment: Moment) -> Job | None:
    """The batch as it is now that the key's first create made; None for a key that is new.

    Raises Conflict when that was another request, Gone when the batch has been deleted.
    """
    async with database.connection() as conn:
        row = await conn.fetchrow(_Q["find_key"], account_id, once.key, moment.now)
        job = None if row is None else await find_batch(conn, row["batch_id"], moment)
    if row is None:
        return None
    if job is None:
        raise Gone("The batch that this Idempotency-Key created has been deleted", code="batch_deleted")
    if row["request_hash"] != once.digest:
        raise Conflict("The Idempotency-Key was already used with a different request", code=CONFLICT)
    return job


async def claim_key(conn: Connection, account_id: str, once: Once | None, batch_id: str, now: datetime) -> None:
    """Let the key, if there is one, stand for a batch about to be stored. Raises KeyTaken."""
    if once is None:
        return
    if await conn.fetchrow(_Q["claim_key"], account_id, once.key, once.digest, batch_id, now) is None:
        raise KeyTaken


async def bury_keys(conn: Connection, batch_id: str, now: datetime) -> None:
    """Keep the keys of a batch that is being deleted for another day."""
    await conn.execute(_Q["bury_keys"], batch_id, now + REMEMBERED_AFTER_DELETION)


async def forget_keys(database: Database, now: datetime) -> int:
    """Drop keys whose time is over; some at a time."""
    async with database.transaction() as conn:
        tag = await conn.execute(_Q["forget_keys"], now, _STEP_KEYS)
    return int(tag.rpartition(" ")[2])
