"""Removing an account for good: asked for here, done by workers in bounded steps (ebbtide.worker.purge), shown here.

From the moment it is asked for the account is deleted, so nothing of it starts any more, in builds that do not know of
removals too. Each step holds the removal's row: whatever crashes, the next process goes on from what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from asyncpg import Record

from ebbtide.accounts.accounts import keep_an_admin
from ebbtide.accounts.sessions_store import end_sessions
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.page import Page
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.accounts", "purges.sql")
PURGE_CHANNEL: Final = "ebbtide_purges"  # an account is to be removed

Wait = Literal[
    "running_requests",
    "sealing",
    "readers",
    "webhook_delivery",
    "interactive_requests",
    "newer_release",
    "last_minute",
]
"""What keeps something of an account in place: leases that run, rows that only a newer release may remove, or, where
there is nothing else, the minute in which what began just before ends.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one room did of a removal: rows removed, things left (batches or files), and what they wait for."""

    removed: int = 0
    left: int = 0
    waits_for: tuple[Wait, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the room holds nothing of the account any more."""
        return not (self.removed or self.left or self.waits_for)


@dataclass(frozen=True, slots=True)
class Purge:
    """How far the removal of an account is. `swept_to`: stored contents of its requests before that are gone."""

    account_id: str
    asked_at: datetime
    asked_by: str
    waits_for: Sequence[str]
    batches_left: int
    files_left: int
    rows_removed: int
    swept_to: datetime | None
    finished_at: datetime | None

    @property
    def state(self) -> Literal["waiting", "purging", "purged"]:
        if self.finished_at is not None:
            return "purged"
        return "waiting" if self.waits_for else "purging"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a whole step came to, to be noted."""

    waits_for: Sequence[str]
    batches_left: int
    files_left: int
    removed: int
    swept_to: datetime | None
    finished_at: datetime | None = None


async def purge_account(database: Database, account_id: str, actor: str, now: datetime) -> Purge:
    """Delete the account, if it was not, and have everything of it removed; asked again, tells how far that is.

    Raises NotFound, and Conflict for the last administrator that may act.
    """
    async with database.transaction() as conn:
        await keep_an_admin(conn, account_id)
        account = await conn.fetchrow(_Q["lock_account"], account_id)
        if account is not None and await conn.fetchval(_Q["add_purge"], account_id, now, actor) is not None:
            await conn.execute(_Q["mark_deleted"], account_id)
            await end_sessions(conn, account_id, None)
            await add_audit(conn, Deed(actor, "account.purge", account_id, account_id, {"name": account["name"]}), now)
            await notify(conn, PURGE_CHANNEL)
        return _found(await conn.fetchrow(_Q["get_purge"], account_id), account_id)


async def get_purge(database: Database, account_id: str) -> Purge:
    """Raises NotFound where none was asked for."""
    async with database.connection() as conn:
        return _found(await conn.fetchrow(_Q["get_purge"], account_id), account_id)


async def page_purges(database: Database, after: str | None, limit: int) -> Page[Purge]:
    """The last asked for first. Raises InvalidRequest for a cursor that is no removal's."""
    async with database.connection() as conn:
        if after is not None and not await conn.fetchval(_Q["knows_purge"], after):
            raise InvalidRequest("after is not the id of an account that was removed", param="after")
        rows = await conn.fetch(_Q["page_purges"], after, limit + 1)
    return Page([Purge(**row) for row in rows[:limit]], len(rows) > limit)


async def open_purges(database: Database, limit: int) -> list[str]:
    """The accounts that are still to be removed."""
    async with database.connection() as conn:
        return [row["account_id"] for row in await conn.fetch(_Q["open_purges"], limit)]


async def lock_purge(conn: Connection, account_id: str) -> Purge | None:
    """None when it is finished, or another process is at it."""
    row = await conn.fetchrow(_Q["lock_purge"], account_id)
    return None if row is None else Purge(**row)


async def note_purge(conn: Connection, account_id: str, progress: Progress, now: datetime) -> None:
    values = (progress.waits_for, progress.batches_left, progress.files_left, progress.removed)
    await conn.execute(_Q["note_purge"], account_id, now, *values, progress.swept_to, progress.finished_at)


async def drop_keys(conn: Connection, account_id: str, limit: int) -> int:
    """Remove some keys; 0 when none was left."""
    return _count(await conn.execute(_Q["drop_keys"], account_id, limit))


async def remove_account(conn: Connection, purge: Purge, now: datetime) -> None:
    """Remove the account itself, the last of it. Whoever waits for its row then finds that there is none."""
    await conn.fetchrow(_Q["lock_account"], purge.account_id)
    await conn.execute(_Q["remove_account"], purge.account_id)
    detail = {"asked_at": purge.asked_at.isoformat(), "rows_removed": purge.rows_removed}
    await add_audit(conn, Deed(purge.asked_by, "account.purged", purge.account_id, purge.account_id, detail), now)


def _found(row: Record | None, account_id: str) -> Purge:
    if row is None:
        raise NotFound(f"There is no account {account_id[:200]!r} that is being removed")
    return Purge(**row)


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])
