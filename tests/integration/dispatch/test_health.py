"""What processes tell each other of their routes: what changed, again while it lasts, gone with the process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from tests.fake_upstream import FakeUpstream

from ebbtide.catalog.model import Model, Route
from ebbtide.clock import SystemClock
from ebbtide.dispatch import health
from ebbtide.dispatch.breaker import BreakerRules
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.health import HealthReporter, read_health
from ebbtide.dispatch.outcome import Answered, Call, Failed
from ebbtide.dispatch.rules import Rules
from ebbtide.dispatch.send import Sender
from ebbtide.duties import repeat
from ebbtide.storage.pool import Database

# Nobody listens at the discard port: the connection is refused at once.
MODEL = Model("m", "chat", (Route("r", "openai", "up", "http://127.0.0.1:9/v1", ("one", "two"), max_concurrency=7),))
CALL = Call(model=MODEL, target="chat", body=b'{"model":"m","messages":[]}', requested="m", source="interactive")


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender, rules=lambda: Rules(BreakerRules(failures=2, seconds=60)))


async def test_a_circuit_that_opens_is_told_with_its_time(database: Database, dispatcher: Dispatcher) -> None:
    reporter = HealthReporter(database, dispatcher, "here")
    assert await reporter.report() == 0
    await dispatcher.call(CALL)
    assert [await reporter.report() for _ in range(2)] == [1, 0]
    ((told,),) = (await read_health(database)).values()
    assert (told.process, told.model, told.route, told.state, told.opened_at) == ("here", "m", "r", "closed", None)
    assert (told.failures, told.in_flight, told.most, told.keys, told.keys_resting) == (1, 0, 7, 2, 0)
    await dispatcher.call(CALL)
    assert await reporter.report() == 1
    ((opened,),) = (await read_health(database)).values()
    assert (opened.state, opened.opened, opened.closed, opened.last_error) == ("open", 1, 0, "refused")
    assert opened.opened_at is not None
    assert told.seen_at <= opened.opened_at <= opened.seen_at


async def test_processes_stand_side_by_side_and_the_silent_are_left_out(
    database: Database, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher.is_able(MODEL, "interactive")
    await HealthReporter(database, dispatcher, "crashed").report()
    reporter = HealthReporter(database, dispatcher, "here")
    await reporter.report()
    assert [one.process for one in (await read_health(database))["m", "r"]] == ["crashed", "here"]
    async with database.connection() as conn:
        await conn.execute("update route_health set seen_at = seen_at - interval '30 seconds'")
    assert await read_health(database) == {}
    monkeypatch.setattr(health, "_AGAIN", 0.0)
    assert await reporter.report() == 1
    assert [one.process for one in (await read_health(database))["m", "r"]] == ["here"]


async def test_a_process_that_stops_takes_its_word_back_and_old_ones_with_it(
    database: Database, dispatcher: Dispatcher
) -> None:
    dispatcher.is_able(MODEL, "interactive")
    for process in ("dead", "lives"):
        await HealthReporter(database, dispatcher, process).report()
    async with database.connection() as conn:
        await conn.execute("update route_health set seen_at = now() - interval '6 minutes' where process = 'dead'")
    duty = HealthReporter(database, dispatcher, "here").duty()
    running = asyncio.create_task(repeat(duty, SystemClock(), random.Random()))
    async with asyncio.timeout(10):
        while len((await read_health(database)).get(("m", "r"), ())) != 2:  # noqa: ASYNC110  told at once
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with database.connection() as conn:
        left = await conn.fetch("select process from route_health")
    assert [row["process"] for row in left] == ["lives"]


async def test_a_call_that_waits_for_room_does_not_go_where_nothing_goes_any_more() -> None:
    off: frozenset[tuple[str, str]] = frozenset()
    async with FakeUpstream(latency=60) as upstream, Sender() as sender:
        model = Model("m", "chat", (Route("r", "openai", "up", upstream.url, max_concurrency=1),))
        dispatcher = Dispatcher(sender, rules=lambda: Rules(off=off))
        call = Call(model=model, target="chat", body=CALL.body, requested="m", source="batch")
        runs = asyncio.create_task(dispatcher.call(call))
        await upstream.arrived.get()
        waits = asyncio.create_task(dispatcher.call(call))
        async with asyncio.timeout(10):
            while dispatcher.in_flight["m", "batch"] < 2:  # noqa: ASYNC110  it has begun
                await asyncio.sleep(0.01)
        off = frozenset({("m", "r")})
        upstream.hurry()
        assert isinstance(await runs, Answered), "what runs goes on"
        refused = await waits
        assert isinstance(refused, Failed)
        assert (refused.kind, refused.status, refused.sent, upstream.count) == ("no_route", 503, False, 1)
