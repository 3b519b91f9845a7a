"""The audit log: written with the deed or not at all, read newest first, by account."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ebbtide.records.audit import Deed, add_audit, list_audit
from ebbtide.storage.pool import Database

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def note(database: Database, subject: str, account_id: str | None = None) -> None:
    async with database.transaction() as conn:
        deed = Deed("acct_a/key_a", "thing.read", subject, account_id, {"seen": [1, "zwölf", None]})
        await add_audit(conn, deed, NOW)


async def test_pages_are_newest_first_and_end(database: Database) -> None:
    assert (await list_audit(database)).entries == []
    for number in range(5):
        await note(database, f"thing-{number}")
    first = await list_audit(database, limit=3)
    assert [entry.object for entry in first.entries] == ["thing-4", "thing-3", "thing-2"]
    assert first.has_more
    rest = await list_audit(database, before=first.entries[-1].id, limit=2)
    assert [entry.object for entry in rest.entries] == ["thing-1", "thing-0"]
    assert not rest.has_more
    entry = rest.entries[-1]
    assert (entry.at, entry.actor, entry.action, entry.account_id) == (NOW, "acct_a/key_a", "thing.read", None)
    assert entry.detail == {"seen": [1, "zwölf", None]}


async def test_one_account_only(database: Database) -> None:
    await note(database, "mine", "acct_a")
    await note(database, "yours", "acct_b")
    await note(database, "nobody's")
    page = await list_audit(database, account_id="acct_a")
    assert [entry.object for entry in page.entries] == ["mine"]


async def test_a_deed_that_is_undone_leaves_no_entry(database: Database) -> None:
    async def undone() -> None:
        async with database.transaction() as conn:
            await add_audit(conn, Deed("cli:root", "thing.made", "thing"), NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await undone()
    assert (await list_audit(database)).entries == []
