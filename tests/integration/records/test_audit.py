"""The audit log: written with the deed or not at all, read newest first, by account."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gateway import until

from ebbtide.records.audit import AuditFilter, Deed, add_audit, list_audit
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
    page = await list_audit(database, AuditFilter("acct_a"))
    assert [entry.object for entry in page.entries] == ["mine"]


async def test_a_deed_that_is_undone_leaves_no_entry(database: Database) -> None:
    async def undone() -> None:
        async with database.transaction() as conn:
            await add_audit(conn, Deed("cli:root", "thing.made", "thing"), NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await undone()
    assert (await list_audit(database)).entries == []


async def test_filters_narrow_by_actor_action_thing_and_time(database: Database) -> None:
    deeds = [
        (Deed("acct_a/key_1", "key.create", "key_1"), 0),
        (Deed("acct_a/key_2", "key.revoke", "key_1"), 1),
        (Deed("acct_ab/key_3", "keyring.open", "ring"), 2),
        (Deed("cli:acct_a", "setting.set", "X"), 3),
    ]
    async with database.transaction() as conn:
        for deed, minute in deeds:
            await add_audit(conn, deed, NOW + timedelta(minutes=minute))

    async def found(**which: Any) -> list[str]:
        return [entry.action for entry in (await list_audit(database, AuditFilter(**which))).entries]

    assert await found(actor="acct_a") == ["key.revoke", "key.create"]
    assert await found(actor="acct_a/key_1") == ["key.create"]
    assert await found(actor="cli:acct_a") == ["setting.set"]
    assert await found(action="key") == ["key.revoke", "key.create"]
    assert await found(action="keyring.open") == ["keyring.open"]
    assert await found(object="key_1", actor="acct_a/key_2") == ["key.revoke"]
    times = {"start": NOW + timedelta(minutes=1), "end": NOW + timedelta(minutes=3)}
    assert await found(**times) == ["keyring.open", "key.revoke"]


@pytest.mark.parametrize(
    ("which", "index"),
    [
        (AuditFilter(actor="acct_rare"), "audit_log_actor"),
        (AuditFilter(action="rare.deed"), "audit_log_action"),
        (AuditFilter(object="rare thing"), "audit_log_object"),
        (AuditFilter(end=NOW - timedelta(days=90)), "audit_log_at"),
    ],
)
async def test_a_filter_that_finds_little_reads_little(database: Database, which: AuditFilter, index: str) -> None:
    async with database.transaction() as conn:
        await conn.execute(
            "insert into audit_log (at, actor, action, object) select $1::timestamptz + n * interval '1 second', "
            "'acct_x/key_' || n, 'thing.read', 'thing ' || n from generate_series(1, 20000) n",
            NOW,
        )
        await conn.execute("analyze audit_log")
    await list_audit(database, which)

    async def used() -> bool:
        async with database.connection() as conn:
            await conn.execute("select pg_stat_force_next_flush()")
            scans = await conn.fetchval("select idx_scan from pg_stat_user_indexes where indexrelname = $1", index)
        return bool(scans > 0)

    assert await until(used)  # behind a pooler another server process counted, and tells it within seconds
