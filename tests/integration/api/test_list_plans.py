"""Every list and sum that a page shows reads through an index, and about as many rows as it answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.conftest import Server, database_at
from tests.domain import NOON

from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

ACCOUNTS, BATCHES, FILES, DEEDS = 3_000, 2_000, 6_000, 20_000
FILL = f"""
insert into accounts (id, name, role, created_at)
    select 'acct_' || n, 'account ' || n, case when n % 100 = 1 then 'admin' else 'free' end,
           now() - n * interval '1 min' from generate_series(1, {ACCOUNTS}) n;
insert into api_keys (id, account_id, prefix, hash, created_at)
    select 'key_' || n, 'acct_' || (n % {ACCOUNTS} + 1), 'ebb-x', sha256(n::text::bytea), now()
    from generate_series(1, 3 * {ACCOUNTS}) n;
insert into batch_jobs (id, account_id, key_id, api_surface, target, input_id, completion_window, retention_days,
                        phase, created_at, sealed_at, results_expires_at, total, completed, model)
    select 'batch_' || n, 'acct_' || (n % 50 + 1), 'key_1', 'openai_inline', 'chat', 'file-' || n, '24h', 7, 'sealed',
           now(), now(), now(), 500, 500, 'm' || n % 3 from generate_series(1, {BATCHES}) n;
insert into batch_files (id, account_id, purpose, state, filename, bytes, sha256, created_at)
    select 'file-u' || n, 'acct_' || (n % 50 + 1), 'batch', 'stored', 'in.jsonl', 9, sha256(n::text::bytea), now()
    from generate_series(1, {FILES}) n;
insert into batch_webhook_events (id, account_id, batch_id, type, created_at, state)
    select 'evt_' || n, 'acct_' || (n % 50 + 1), 'batch_' || n, 'batch.completed', now(), 'delivered'
    from generate_series(1, {FILES}) n;
insert into audit_log (at, actor, action, object, account_id)
    select now(), 'acct_1/key_1', 'key.create', 'key_' || n, 'acct_' || (n % {ACCOUNTS} + 1)
    from generate_series(1, {DEEDS}) n;
insert into spend_days (account_id, key_id, day, source, requests, cost_usd)
    select 'acct_' || a, 'key_' || a, date '2026-03-02' - d, 'batch', 5, 0.1
    from generate_series(1, 300) a, generate_series(0, 59) d;
"""


@dataclass(frozen=True)
class Page:
    """A statement as a page runs it, and how many rows it may go through of any one table."""

    room: str
    file: str
    name: str
    values: tuple[Any, ...]
    rows: int

    def __str__(self) -> str:
        return f"{self.name}-{self.rows}"


ROLES, NONE = ["free", "pro", "internal", "admin"], [None] * 4
TODAY = NOON.date()
PAGES = (
    Page("batches", "overview.sql", "list_jobs", (*[None] * 6, 101), 101),
    Page("batches", "overview.sql", "list_jobs", ("batch_900", *[None] * 5, 101), 101),
    Page("batches", "overview.sql", "list_jobs", (None, "acct_7", *[None] * 4, 101), BATCHES),
    Page("batches", "read.sql", "list_batches", ("acct_7", None, 101), BATCHES // 50),
    Page("batches", "overview.sql", "has_batches", ("acct_7",), 1),
    Page("batches", "intake.sql", "count_unfinished", ("acct_7",), 0),
    Page("accounts", "directory.sql", "page_accounts", (*[None] * 4, 101), 101),
    Page("accounts", "directory.sql", "page_accounts", ("acct_900", *[None] * 3, 101), 101),
    Page("accounts", "directory.sql", "page_keys", ("acct_7", None, 101), 3),
    Page("accounts", "directory.sql", "account_names", ([f"acct_{n}" for n in range(100)],), 100),
    Page("accounts", "spending.sql", "account_spending", ("acct_7", TODAY, ROLES, NONE, NONE), 4),
    Page("accounts", "spending.sql", "key_spending", ("acct_7", TODAY, NOON, 1_000), 4),
    Page("files", "store.sql", "list_newest", ("acct_7", NOON, None, None, 101), 101),
    Page("files", "store.sql", "list_oldest", ("acct_7", NOON, None, "file-u306", 101), 120),
    Page("files", "store.sql", "stored_bytes", ("acct_7",), FILES // 50),
    Page("delivery", "store.sql", "list_events", ("acct_7", None, 21), 21),
    Page("records", "audit.sql", "list_audit", (None, 101, *[None] * 8), 101),
    Page("records", "audit.sql", "list_audit", (9_000, 101, "acct_7", *[None] * 7), DEEDS // ACCOUNTS + 1),
    Page("records", "audit.sql", "list_audit", (None, 101, None, "acct_9/", "acct_9/~", *[None] * 5), 0),
    Page("records", "log_read.sql", "usage_by_key", ("acct_7", TODAY.replace(day=1), TODAY), 2),
)
LARGE = {"accounts", "api_keys", "batch_jobs", "batch_files", "batch_webhook_events", "audit_log", "spend_days"}


@pytest.fixture(scope="module")
async def filled(server: Server, template: str) -> AsyncIterator[Database]:
    async with server.database(template) as name, await Database.connect(database_at(server.url, name)) as database:
        async with database.connection() as conn:
            await conn.execute(FILL)
            await conn.execute("analyze")
        yield database


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize("page", PAGES, ids=str)
async def test_a_page_reads_what_it_shows(filled: Database, page: Page) -> None:
    statement = load_queries(f"ebbtide.{page.room}", page.file)[page.name]
    async with filled.connection() as conn:
        told = json.loads(await conn.fetchval("explain (analyze, format json) " + statement, *page.values))
    for node in nodes(told[0]["Plan"]):
        table = node.get("Relation Name")
        if table in LARGE:
            read = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            assert node["Node Type"] != "Seq Scan", (table, told)
            assert read <= page.rows, (table, told)


async def test_the_sums_of_all_batches_read_the_batches_once_and_nothing_else(filled: Database) -> None:
    statement = load_queries("ebbtide.batches", "overview.sql")["summarise"]
    async with filled.connection() as conn:
        told = json.loads(await conn.fetchval("explain (analyze, format json) " + statement, 100))
    read = [node for node in nodes(told[0]["Plan"]) if "Relation Name" in node]
    assert [(node["Relation Name"], node["Actual Loops"], node["Actual Rows"]) for node in read] == [
        ("batch_jobs", 1, BATCHES)
    ]
