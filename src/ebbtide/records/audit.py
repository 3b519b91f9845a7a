"""The audit log: who did what to which thing, written in the transaction of the deed itself, so that neither is alone.

A detail never holds a secret, a prompt or an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.records", "audit.sql")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be noted.

    `actor` is `<account id>/<key id>`, or `cli:<user>` for a command on the database; `action` a noun and a verb
    (`setting.set`); `object` what it was done to; `account_id` whose account it concerned, where it did one's.
    """

    actor: str
    action: str
    object: str
    account_id: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A deed as it was noted; `id` grows with time."""

    id: int
    at: datetime
    actor: str
    action: str
    object: str
    account_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first, and whether older ones follow."""

    entries: list[AuditEntry]
    has_more: bool


async def add_audit(conn: Connection, deed: Deed, now: datetime) -> None:
    """Note a deed in the transaction of `conn`."""
    detail = msgspec.json.encode(deed.detail).decode()
    await conn.execute(_Q["add_audit"], now, deed.actor, deed.action, deed.object, deed.account_id, detail)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries; None does not narrow. `actor` may be an account's id, `action` a noun; `end` is not included."""

    account_id: str | None = None
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    start: datetime | None = None
    end: datetime | None = None


ANY: Final = AuditFilter()


async def list_audit(
    database: Database, which: AuditFilter = ANY, *, before: int | None = None, limit: int = 100
) -> AuditPage:
    """A page of the log, newest first: entries older than the id `before`."""
    filters = (*_range(which.actor, "/", ":"), *_range(which.action, "."), which.object, which.start, which.end)
    async with database.transaction() as conn:
        await conn.execute(_Q["plan_for_values"])
        rows = await conn.fetch(_Q["list_audit"], before, limit + 1, which.account_id, *filters)
    entries = [AuditEntry(**{**dict(row), "detail": _decode(row["detail"])}) for row in rows[:limit]]
    return AuditPage(entries, len(rows) > limit)


def _range(name: str | None, mark: str, *others: str) -> tuple[str | None, str | None]:
    """The first and the last text that a filter means: what is named, or, where it has no mark, all that begin so."""
    if name is None or any(sign in name for sign in (mark, *others)):
        return name, name
    return name + mark, name + mark + "\U0010ffff"
