"""Reading the request log: filters, pages, bars that agree with the rows, plans that never go over the whole of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from tests.domain import NOON

from ebbtide.records.content import LONGEST_BYTES, Packer, add_contents, get_content, open_content
from ebbtide.records.log_bars import WINDOWS, Which, read_windows
from ebbtide.records.log_days import add_days, fold_counts
from ebbtide.records.log_read import Filter, list_requests, reach_back
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

ROWS = 40_000
DAY = timedelta(days=1)
# Rows come backwards from NOON, one each 30 s: 13.9 days; a quarter is interactive, one in 40 fails, one in 50 is of a
# batch, 200 accounts.
FILL = """insert into api_logs (at, request_id, account_id, key_id, source, target, model, status_code, error_code,
                              input_tokens, output_tokens, cost_usd, batch_job_id, metadata)
          select $1::timestamptz - n * interval '30 s', 'r' || n, 'a' || n % 200, 'k' || n % 200,
                 case when n % 4 = 0 then 'interactive' else 'batch' end, 'chat', 'm' || n % 3,
                 case when n % 40 = 1 then 500 else 200 end, case when n % 40 = 1 then 'upstream_error' end, 3, 2,
                 case when n % 7 = 0 then null else 0.001 end, case when n % 4 > 0 then 'batch_' || n % 51 end,
                 case when n % 4 > 0 then jsonb_build_object('item', n, 'attempt', 1, 'outcome', 'completed') end
          from generate_series(1, $2::int) n"""


@pytest.fixture
async def filled(database: Database) -> Database:
    for back in range(16):
        await add_days(database, NOON - back * DAY)
    async with database.connection() as conn:
        await conn.execute("insert into accounts (id, name, role, created_at) values ('a7', 'seven', 'pro', now())")
        await conn.execute(
            "insert into api_keys (id, account_id, prefix, hash, created_at) values ('k7', 'a7', 'p', $1, now())",
            bytes(32),
        )
        await conn.execute(FILL, NOON, ROWS)
        await conn.execute("analyze")
    return database


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def rows_read(database: Database, name: str, *values: Any) -> int:
    """The most rows that any node of the statement's plan went through."""
    queries = load_queries("ebbtide.records", "log_read.sql")
    async with database.transaction() as conn:
        await conn.execute(queries["plan_for_values"])
        told = json.loads(await conn.fetchval("explain (analyze, format json) " + queries[name], *values))
    return max(
        int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))
        for node in nodes(told[0]["Plan"])
    )


async def test_no_question_goes_over_the_whole_log(filled: Database) -> None:
    start = NOON - 90 * DAY

    async def read(before: tuple[datetime, int] | None = None, **which: Any) -> int:
        it = Filter(start, **which)
        values = (it.source, it.batch_id, it.account_id, it.model, it.status, it.error, it.failed)
        return await rows_read(
            filled, "list_requests", start, it.end, *(before or (None, None)), *values, 51, it.key_id
        )

    newest = (await list_requests(filled, Filter(start), None, 500)).items[-1]
    for which in ({}, {"source": "interactive"}, {"source": "batch"}, {"model": "m1"}, {"end": NOON - 2 * DAY}):
        assert await read(**which) < 1_000, which
    assert await read(model="m9") == 0
    assert await read(status=418) <= ROWS // 40  # no more than what went wrong
    assert await read(error="no_such_error") <= ROWS // 40
    assert await read((newest.at, newest.id)) < 1_000
    assert await read(failed=True) < 1_000
    assert await read(account_id="a7") <= ROWS // 200
    assert await read(key_id="k7") <= ROWS // 200
    assert await read(batch_id="batch_7") <= ROWS // 51 + 51
    while await fold_counts(filled, NOON + DAY):
        pass
    direct = await asyncpg.connect(filled.listen_url)  # no pooler's transaction around it
    await direct.execute("vacuum analyze api_log_counts")
    await direct.close()
    counted = await rows_read(filled, "count_requests", NOON - 90 * DAY, NOON + DAY, DAY, None)
    assert counted <= (8 * 24 + 7) * 2 * 200 * 3  # hours and days, sources, accounts, models: far fewer in reality
    usage = await rows_read(filled, "usage_by_model", "a7", (NOON - 29 * DAY).date(), NOON.date())
    assert usage <= (8 * 24 + 7) * 2 * 3


async def test_the_bars_are_the_rows(filled: Database) -> None:
    """In each state of the figures, loose or folded, a bar counts what the list of its stretch shows."""
    for now in (NOON, NOON + timedelta(minutes=7)):
        for window, bars in await read_windows(filled, WINDOWS, now, Which()):
            assert len(bars) == window.count
            assert bars[0].start < bars[0].end == bars[1].start
            assert bars[-1].start <= now < bars[-1].end
            for bar in (bars[-1], bars[-2], bars[-3]):
                where = "from api_logs where at >= $1 and at < $2"
                async with filled.connection() as conn:
                    row = await conn.fetchrow(
                        f"""select count(*), count(*) filter (where status_code = 500), coalesce(sum(input_tokens), 0),
                                   coalesce(sum(cost_usd), 0), count(*) filter (where cost_usd is null),
                                   count(*) filter (where source = 'batch'),
                                   count(*) filter (where source = 'batch' and status_code = 500) {where}""",
                        bar.start,
                        bar.end,
                    )
                asked, batch = bar.asked, bar.batch
                told = (asked.requests, asked.errors, asked.input_tokens, asked.cost_usd, asked.cost_unknown)
                assert (*told, batch.requests, batch.errors) == tuple(row or ()), (window.name, bar.start)
        [(_, [*_, last])] = await read_windows(filled, WINDOWS[-1:], now, Which("interactive", "m1"))
        page = await list_requests(
            filled, Filter(last.start, last.end, source="interactive", model="m1"), None, 100_000
        )
        assert (last.asked.requests, page.has_more) == (len(page.items), False)
        assert last.asked.requests > 0
        assert last.asked.cost_usd == sum((row.cost_usd or Decimal(0) for row in page.items), Decimal(0))
        while await fold_counts(filled, now):
            pass


def test_a_start_widens_the_lookback_up_to_90_days() -> None:
    assert reach_back(NOON, DAY, None) == NOON - DAY
    assert reach_back(NOON, DAY, NOON - timedelta(hours=1)) == NOON - timedelta(hours=1)
    assert reach_back(NOON, DAY, NOON - 89 * DAY) == NOON - 89 * DAY
    assert reach_back(NOON, DAY, datetime(1, 1, 1, tzinfo=UTC)) == NOON - 90 * DAY


async def test_content_is_kept_up_to_its_bound(database: Database) -> None:
    await add_days(database, NOON)
    small = Packer().pack(b"asked", b"told", 5, 4)
    large = Packer().pack(b"x" * (LONGEST_BYTES + 1), b"y", LONGEST_BYTES + 1, 7)
    async with database.transaction() as conn:
        await add_contents(conn, [(NOON, "req_1", small), (NOON, "req_2", large)])
        await add_contents(conn, [])
    async with database.connection() as conn:
        one, two = await get_content(conn, NOON, "req_1"), await get_content(conn, NOON, "req_2")
        assert await get_content(conn, NOON, "req_3") is None
    assert one is not None
    assert two is not None
    assert (open_content(one), one.truncated) == ((b"asked", b"told"), False)
    assert (open_content(two)[0], two.truncated, two.answer_bytes) == (b"x" * LONGEST_BYTES, True, 7)
