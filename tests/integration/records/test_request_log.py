"""The request log: rows and charges in one transaction, none twice, none lost, and room that is waited for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from ebbtide.errors import Unavailable
from ebbtide.records import request_log
from ebbtide.records.request_log import LogEntry, RequestLog
from ebbtide.storage.pool import Database

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ROW = LogEntry(
    at=NOON,
    request_id="req_1",
    account_id="acc",
    key_id="key",
    source="interactive",
    target="chat",
    model="chat-1",
    route="r",
    status_code=200,
    error_code=None,
    input_tokens=10,
    cached_tokens=0,
    output_tokens=5,
    reasoning_tokens=0,
    cost_usd=Decimal("0.25"),
    first_token_ms=None,
    total_ms=7,
    attempts=1,
    streamed=False,
)


async def sums(database: Database) -> tuple[int, int, Decimal]:
    """Rows in the log, charged requests and USD."""
    async with database.connection() as conn:
        rows = await conn.fetchval("select count(*) from api_logs")
        spend = await conn.fetchrow("select sum(requests) as n, sum(cost_usd) as usd from spend_days")
    assert spend is not None
    return rows, int(spend["n"] or 0), spend["usd"] or Decimal(0)


async def test_a_group_whose_commit_went_unanswered_is_not_written_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RequestLog(database, "p")
    written: list[int] = []
    for n in range(3):
        log.put(ROW, lambda n=n: written.append(n))  # type: ignore[misc]  # the default binds it
    store = log._store

    async def answer_lost(entries: Any) -> None:
        await store(entries)
        raise Unavailable("the answer to COMMIT was lost")

    monkeypatch.setattr(log, "_store", answer_lost)
    with pytest.raises(Unavailable):
        await log.flush(NOON)
    assert (log.waiting, written) == (3, [])
    monkeypatch.setattr(log, "_store", store)
    log.put(ROW)
    await log.flush(NOON)
    assert await sums(database) == (4, 4, Decimal(1))
    assert (log.waiting, written) == (0, [0, 1, 2])


async def test_a_row_that_cannot_be_stored_takes_no_other_with_it(database: Database) -> None:
    log = RequestLog(database, "p")
    for request_id in ("a", "b\0", "c"):
        log.put(msgspec.structs.replace(ROW, request_id=request_id))
    await log.flush(NOON)
    assert log.waiting == 0
    assert await sums(database) == (2, 2, Decimal("0.5"))


async def test_an_unknown_cost_is_not_charged(database: Database) -> None:
    log = RequestLog(database, "p")
    log.put(msgspec.structs.replace(ROW, cost_usd=None))
    log.put(msgspec.structs.replace(ROW, cost_usd=Decimal(0), input_tokens=None))
    await log.flush(NOON)
    assert await sums(database) == (2, 0, Decimal(0))


async def test_days_are_charged_apart(database: Database) -> None:
    log = RequestLog(database, "p")
    log.put(ROW)
    log.put(msgspec.structs.replace(ROW, at=datetime(2026, 3, 3, tzinfo=UTC)))
    await log.flush(NOON)
    async with database.connection() as conn:
        assert [row["requests"] for row in await conn.fetch("select requests from spend_days order by day")] == [1, 1]


async def test_whoever_comes_waits_for_room(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RequestLog(database, "p", most=2)
    await log.wait_for_room()
    log.put(ROW)
    log.put(ROW)
    waiting = asyncio.create_task(log.wait_for_room())
    await log.flush(NOON)
    await waiting
    log.put(ROW)
    log.put(ROW)
    monkeypatch.setattr(request_log, "PATIENCE", 0.0)
    with pytest.raises(Unavailable):
        await log.wait_for_room()
