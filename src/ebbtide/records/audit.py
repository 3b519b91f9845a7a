"""The audit log: who did what to which thing, written in the transaction of the deed itself, so that neither is alone.

A detail never holds a secret, a prompt or an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

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


async def list_audit(
    database: Database, *, before: int | None = None, account_id: str | None = None, limit: int = 100
) -> AuditPage:
    """A page of the log, newest first: entries older than the id `before`, of one account or of all."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_audit"], before, account_id, limit + 1)
    entries = [AuditEntry(**{**dict(row), "detail": _decode(row["detail"])}) for row in rows[:limit]]
    return AuditPage(entries, len(rows) > limit)
