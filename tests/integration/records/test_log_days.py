"""The request log's days: made ahead, dropped when old, by many processes at once, whatever the default one holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.domain import NOON

from ebbtide.records.log_days import (
    AHEAD_DAYS,
    LOGS,
    add_days,
    drop_days,
    fold_counts,
    keep_log,
    keeping_log,
    missing_days,
    prune,
)
from ebbtide.storage.pool import Connection, Database

ROW = """insert into api_logs (at, account_id, key_id, source, target, model, status_code, input_tokens, cost_usd)
         select $1, 'a', 'k', 'interactive', 'chat', 'm', 200, 3, 0.5 from generate_series(1, $2::int)"""


@pytest.fixture(scope="session")
def template(migrated: str) -> str:
    """No day has been made yet."""
    return migrated


async def put(database: Database, at: datetime, rows: int = 1) -> None:
    async with database.connection() as conn:
        await conn.execute(ROW, at, rows)


async def days(conn: Connection, log: str = "api_logs") -> list[str]:
    found = await conn.fetch(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass", log
    )
    return sorted(row["name"].removeprefix(f"{log}_") for row in found)


async def where(database: Database) -> dict[str, int]:
    """How many rows lie in which partition."""
    async with database.connection() as conn:
        rows = await conn.fetch("select tableoid::regclass::text as name, count(*) as n from api_logs group by 1")
    return {row["name"].removeprefix("api_logs_"): row["n"] for row in rows}


def named(first: date, count: int) -> list[str]:
    return [f"{first + timedelta(days=n):%Y%m%d}" for n in range(count)]


async def test_days_are_made_ahead_and_dropped_when_they_are_old(database: Database) -> None:
    assert await add_days(database, NOON) == len(LOGS) * (AHEAD_DAYS + 1)
    assert await add_days(database, NOON) == 0
    async with database.connection() as conn:
        for log in LOGS:
            assert await days(conn, log) == [*named(NOON.date(), AHEAD_DAYS + 1), "default"]
        assert await missing_days(conn, NOON.date()) == []
        assert await missing_days(conn, NOON.date() + timedelta(days=2)) == [
            NOON.date() + timedelta(days=AHEAD_DAYS + n) for n in (1, 2)
        ]
    midnight = datetime(2026, 3, 3, tzinfo=UTC)
    for at in (midnight - timedelta(microseconds=1), midnight, midnight + timedelta(hours=23, minutes=59)):
        await put(database, at)
    assert await where(database) == {"20260302": 1, "20260303": 2}

    assert await drop_days(database, midnight) == len(LOGS)  # the 2nd lies wholly before it
    assert await drop_days(database, midnight + timedelta(hours=23)) == 0
    assert await where(database) == {"20260303": 2}


async def test_several_processes_make_each_day_once(database: Database) -> None:
    made = await asyncio.gather(*(add_days(database, NOON) for _ in range(6)))
    assert sum(made) <= len(LOGS) * (AHEAD_DAYS + 1)
    await add_days(database, NOON)  # what the others were in the way of
    async with database.connection() as conn:
        assert await days(conn) == [*named(NOON.date(), AHEAD_DAYS + 1), "default"]
    later = NOON + timedelta(days=30)
    dropped = await asyncio.gather(*(drop_days(database, later) for _ in range(4)))
    await drop_days(database, later)
    assert sum(dropped) <= len(LOGS) * (AHEAD_DAYS + 1)
    async with database.connection() as conn:
        assert await days(conn) == ["default"]


async def test_rows_of_the_default_partition_stay_until_they_are_old(database: Database) -> None:
    await put(database, NOON, 3)
    await put(database, NOON + timedelta(days=3), 2)
    await add_days(database, NOON)
    async with database.connection() as conn:
        assert await missing_days(conn, NOON.date()) == [NOON.date(), NOON.date() + timedelta(days=3)]
    await put(database, NOON, 1)
    await put(database, NOON + timedelta(days=1), 1)
    assert await where(database) == {"default": 6, "20260303": 1}

    assert await prune(database, NOON) == 0
    assert await prune(database, NOON + timedelta(days=2)) == 4 + 3  # rows, and the figures of three statements
    assert await where(database) == {"default": 2, "20260303": 1}


async def test_a_row_that_comes_while_its_day_is_made_keeps_the_day_out(database: Database) -> None:
    """The look at the default partition comes first; what is written meanwhile is met at the attaching."""
    async with database.transaction() as writer:
        await writer.execute(ROW, NOON, 1)
        making = asyncio.create_task(add_days(database, NOON))
        blocked = "select count(*) from pg_locks where not granted and relation = 'api_logs_default'::regclass"
        async with database.connection() as conn, asyncio.timeout(20):
            while not making.done() and not await conn.fetchval(blocked):  # noqa: ASYNC110  looks at a database
                await asyncio.sleep(0.01)
    await making
    await add_days(database, NOON)
    async with database.connection() as conn:
        assert await missing_days(conn, NOON.date()) == [NOON.date()]
    assert await where(database) == {"default": 1}


async def test_nobody_waits_long_for_a_log_that_somebody_reads(database: Database) -> None:
    async with database.transaction() as reader:
        await reader.fetch("select from api_logs")
        async with asyncio.timeout(60):
            assert await add_days(database, NOON) == AHEAD_DAYS + 1  # those of the other log
    assert await add_days(database, NOON) == AHEAD_DAYS + 1


async def test_a_round_does_everything_and_then_has_nothing_left(database: Database) -> None:
    await put(database, NOON - timedelta(days=40))
    duty = keeping_log(database, lambda: 30)
    while await duty.run_once(NOON):
        pass
    assert await where(database) == {}
    async with database.connection() as conn:
        assert await conn.fetchval("select count(*) from api_log_counts") == 0
        assert await missing_days(conn, NOON.date()) == []
    await put(database, NOON)
    while await keep_log(database, NOON + timedelta(days=31), 30):
        pass
    assert await where(database) == {}


async def test_figures_are_folded_and_stay_the_same(database: Database) -> None:
    for minutes in (0, 0, 1, 59, 60, 61):
        await put(database, NOON + timedelta(minutes=minutes, seconds=30), 2)
    sums = "select sum(requests), sum(errors), sum(input_tokens), sum(cost_usd), count(*) from api_log_counts"

    async def figures() -> tuple[object, ...]:
        assert await totals(database, "api_log_totals") == await totals(database, "api_log_counts where grain >= 2")
        async with database.connection() as conn:
            return tuple((await conn.fetchrow(sums)).values())  # type: ignore[union-attr]

    before = await figures()
    assert before == (12, 0, 36, pytest.approx(6), 6)
    assert await fold_counts(database, NOON + timedelta(minutes=3)) == 2  # of the last two minutes nothing yet
    assert await figures() == (*before[:4], 5)
    while await fold_counts(database, NOON + timedelta(hours=9, minutes=30)):
        pass
    assert await figures() == (*before[:4], 3)  # one hour whole, and two minutes of the next
    while await fold_counts(database, NOON + timedelta(days=1)):
        pass
    assert await figures() == (*before[:4], 2)
    await put(database, NOON)  # late, for an hour that is folded
    while await fold_counts(database, NOON + timedelta(days=30)):
        pass
    assert (await figures())[-1] == 1
    assert len(await totals(database, "api_log_totals")) == 1
    while await prune(database, NOON + timedelta(days=30)):
        pass
    assert await totals(database, "api_log_totals") == []


async def test_processes_that_fold_together_lose_nothing(database: Database) -> None:
    for hour in range(4):
        await put(database, NOON + timedelta(hours=hour), 3)

    async def fold() -> None:
        while await fold_counts(database, NOON + timedelta(days=2)):
            pass

    await asyncio.gather(*(fold() for _ in range(4)))
    found = await totals(database, "api_log_totals")
    assert found == await totals(database, "api_log_counts")
    assert [requests for _, requests, *_ in found] == [3, 3, 3, 3]


async def totals(database: Database, table: str) -> list[tuple[object, ...]]:
    """Figures by the hour or day, whoever's they are."""
    every = """select at, sum(requests), sum(errors), sum(input_tokens), sum(cached_tokens), sum(output_tokens),
                      sum(reasoning_tokens), sum(cost_usd), sum(cost_unknown), source, model"""
    async with database.connection() as conn:
        rows = await conn.fetch(f"{every} from {table} group by at, source, model order by at, source, model")
    return [tuple(row.values()) for row in rows]
