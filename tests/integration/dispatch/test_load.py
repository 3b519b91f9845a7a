"""What processes tell each other of their interactive load: what changed, again while it lasts, gone at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from tests.wire import Wire

from ebbtide.batches.standing_store import read_room
from ebbtide.clock import SystemClock
from ebbtide.dispatch import load
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.load import LoadReporter, process_name
from ebbtide.dispatch.send import Sender
from ebbtide.duties import repeat
from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender)


async def seen_by(database: Database, process: str, model: str = "m") -> int:
    """The interactive requests that a claim at `process` leaves room for."""
    async with database.connection() as conn:
        return (await read_room(conn, model, process)).interactive


async def test_others_see_it_and_oneself_does_not(database: Database, dispatcher: Dispatcher) -> None:
    dispatcher.in_flight["m", "interactive"] = 3
    dispatcher.in_flight["m", "batch"] = 50
    dispatcher.in_flight["other", "interactive"] = 1
    reporter = LoadReporter(database, dispatcher, "here")
    assert await reporter.report() == 2
    assert (await seen_by(database, "there"), await seen_by(database, "here")) == (3, 0)
    assert await seen_by(database, "there", "other") == 1
    await LoadReporter(database, dispatcher, "third").report()
    assert await seen_by(database, "there") == 6


async def test_only_changes_are_told_and_what_lasts_is_told_again(
    database: Database, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = LoadReporter(database, dispatcher, "here")
    dispatcher.in_flight["m", "interactive"] = 0
    assert await reporter.report() == 0
    dispatcher.in_flight["m", "interactive"] = 2
    assert [await reporter.report() for _ in range(3)] == [1, 0, 0]
    monkeypatch.setattr(load, "_AGAIN", 0.0)
    assert await reporter.report() == 1
    dispatcher.in_flight["m", "interactive"] = 0
    assert [await reporter.report() for _ in range(2)] == [1, 0]
    assert await seen_by(database, "there") == 0


async def test_what_was_not_told_for_five_seconds_counts_for_nothing(
    database: Database, dispatcher: Dispatcher
) -> None:
    dispatcher.in_flight["m", "interactive"] = 2
    await LoadReporter(database, dispatcher, "crashed").report()
    assert await seen_by(database, "there") == 2
    async with database.connection() as conn:
        await conn.execute("update batch_interactive_load set seen_at = seen_at - interval '5 seconds'")
    assert await seen_by(database, "there") == 0


async def test_a_process_that_stops_takes_its_rows_back_and_old_ones_with_them(
    database: Database, dispatcher: Dispatcher
) -> None:
    async with database.connection() as conn:
        await conn.execute(
            "insert into batch_interactive_load values ('dead', 'm', 9, now() - interval '2 hours'), "
            "('lives', 'm', 1, now())"
        )
    reporter = LoadReporter(database, dispatcher, process_name())
    running = asyncio.create_task(repeat(reporter.duty(), SystemClock(), random.Random()))
    dispatcher.in_flight["m", "interactive"] = 4
    async with asyncio.timeout(10):
        while await seen_by(database, "there") != 5:  # noqa: ASYNC110  told after half a second
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with database.connection() as conn:
        left = await conn.fetch("select process from batch_interactive_load")
    assert [row["process"] for row in left] == ["lives"]


async def test_a_database_that_is_away_is_waited_for(
    database_url: str, database: Database, dispatcher: Dispatcher
) -> None:
    wire = Wire(database_url)
    async with wire.url() as url, await Database.connect(url) as through:
        reporter = LoadReporter(through, dispatcher, "here")
        dispatcher.in_flight["m", "interactive"] = 1
        wire.sever()
        with pytest.raises(Unavailable):
            await reporter.report()
        running = asyncio.create_task(repeat(reporter.duty(), SystemClock(), random.Random()))
        wire.cut = False
        async with asyncio.timeout(20):
            while await seen_by(database, "there") != 1:  # noqa: ASYNC110  told once it is back
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_names_are_never_the_same_twice() -> None:
    assert process_name() != process_name()
