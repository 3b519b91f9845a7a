"""Which route a call takes, and what it does when that one fails, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream

from ebbtide.catalog.model import Model, Route
from ebbtide.dispatch.breaker import BreakerRules
from ebbtide.dispatch.dispatcher import Dispatcher, Rules
from ebbtide.dispatch.outcome import Answered, Call, Failed, Source, Timeouts, charge_unknown
from ebbtide.dispatch.send import Sender
from ebbtide.dispatch.streaming import Streaming


class Desk:
    """Two servers, a dispatcher on a clock that only the test moves, and calls to a model with routes at them."""

    def __init__(self, sender: Sender, a: FakeUpstream, b: FakeUpstream) -> None:
        self.now = 0.0
        self.a, self.b = a, b
        self.dispatcher = Dispatcher(
            sender, rules=lambda: Rules(BreakerRules(2, 5.0, 60.0), 300.0), monotonic=lambda: self.now
        )
        self.model = Model("m", "chat", (self.route("a", a), self.route("b", b, weight=1e-12)))

    def route(self, name: str, server: FakeUpstream, **more: Any) -> Route:
        return Route(name, "vllm", "m", server.url, **({"weight": 1e12} | more))

    def call(self, source: Source = "interactive", caller: str | None = None, **times: float) -> Call:
        body = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
        timeouts = Timeouts(**({"total": 30.0} | times))
        return Call("chat", self.model, body, "m", source, timeouts=timeouts, caller=caller)

    async def ask(self, **more: Any) -> Answered | Failed:
        return await self.dispatcher.call(self.call(**more))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeUpstream() as a, FakeUpstream() as b, Sender() as sender:
        yield Desk(sender, a, b)


@pytest.mark.parametrize(
    ("behaviour", "unknown"),
    [
        (Behaviour(status=500), False),
        (Behaviour(status=503), False),
        (Behaviour(do="reset"), True),
        (Behaviour(do="half"), True),
        (Behaviour(status=429), False),
        (Behaviour(status=401), False),
        (Behaviour(do="queued"), False),
    ],
    ids=lambda value: f"{value.do}{value.status}" if isinstance(value, Behaviour) else str(value),
)
@pytest.mark.parametrize("source", ["interactive", "batch"])
async def test_what_may_pass_goes_to_another_endpoint(
    desk: Desk, behaviour: Behaviour, unknown: bool, source: Source
) -> None:
    desk.a.script.append(behaviour)
    answered = await desk.ask(source=source)
    assert isinstance(answered, Answered)
    assert (answered.route, answered.others.calls, charge_unknown(answered)) == ("b", 1, unknown)
    assert (desk.a.count, desk.b.count) == (1, 1)


@pytest.mark.parametrize("behaviour", [Behaviour(status=500), Behaviour(do="reset")], ids=["500", "reset"])
async def test_no_second_try_at_an_endpoint_that_may_have_begun(desk: Desk, behaviour: Behaviour) -> None:
    desk.model = replace(desk.model, routes=(desk.route("a", desk.a), desk.route("same", desk.a)))
    desk.a.script.append(behaviour)
    assert isinstance(await desk.ask(), Failed)
    assert desk.a.count == 1


async def test_a_server_that_does_not_begin_is_left_by_people_and_not_by_batches(desk: Desk) -> None:
    desk.a.script.extend([Behaviour(do="stall")] * 2)
    answered = await desk.ask(first_byte=0.2)
    assert isinstance(answered, Answered)
    assert (answered.route, charge_unknown(answered)) == ("b", True)
    failed = await desk.ask(source="batch", first_byte=0.2)
    assert isinstance(failed, Failed)
    assert (failed.kind, desk.b.count) == ("first_byte_timeout", 1)


@pytest.mark.parametrize("status", [401, 429])
async def test_the_next_key_of_the_pool_is_tried_and_the_refused_one_rests(desk: Desk, status: int) -> None:
    desk.model = replace(desk.model, routes=(desk.route("a", desk.a, api_keys=("one", "two")),))
    desk.a.script.append(Behaviour(status=status, retry_after="60"))
    for _ in range(3):
        assert isinstance(await desk.ask(), Answered)
    used = [received.headers["authorization"].removeprefix("Bearer ") for received in desk.a.requests]
    assert used == ["one", "two", "two", "two"]
    assert [health.keys_resting for health in desk.dispatcher.health()] == [1]
    desk.now = 1_000.0
    await desk.ask()
    assert desk.a.requests[-1].headers["authorization"] == "Bearer one"


async def test_a_circuit_opens_and_its_probe_costs_no_caller_an_error(desk: Desk) -> None:
    def asked() -> tuple[int, int]:
        return desk.a.count, desk.b.count

    desk.a.decide = lambda _: Behaviour(status=500)
    for _ in range(4):
        assert isinstance(await desk.ask(), Answered)
    assert asked() == (2, 4)
    desk.now = 5.0
    assert isinstance(await desk.ask(), Answered)  # the probe fails, and goes on to the other
    assert isinstance(await desk.ask(), Answered)
    assert asked() == (3, 6)
    desk.a.decide = None
    desk.now = 14.0  # the rest after the first probe is still on
    await desk.ask()
    assert asked() == (3, 7)
    desk.now = 15.0
    await desk.ask()
    assert asked() == (4, 7)
    health = next(one for one in desk.dispatcher.health() if one.route == "a")
    assert (health.state, health.opened, health.closed) == ("closed", 1, 1)


async def test_open_circuits_everywhere_say_when_to_come_again(desk: Desk) -> None:
    desk.a.decide = desk.b.decide = lambda _: Behaviour(status=500)
    for _ in range(2):
        await desk.ask()
    assert not desk.dispatcher.is_up(desk.model, "batch")
    failed = await desk.ask()
    assert isinstance(failed, Failed)
    assert (failed.status, failed.code, failed.retry_after, failed.sent) == (503, "service_unavailable", 5.0, False)
    desk.now = 5.0
    assert desk.dispatcher.is_up(desk.model, "batch")


async def test_a_conversation_stays_where_it_was_until_that_route_fails(desk: Desk) -> None:
    desk.a.script.append(Behaviour(status=503))
    assert [(await desk.ask(caller="x")).route for _ in range(3)] == ["b", "b", "b"]
    assert (await desk.ask(caller="y")).route == "a"
    assert (await desk.ask(source="batch")).route == "a"
    desk.b.script.append(Behaviour(status=503))
    assert (await desk.ask(caller="x")).route == "a"
    desk.now = 301.0
    desk.a.script.append(Behaviour(status=503))
    assert (await desk.ask(caller="x")).route == "b"
    desk.now = 602.0
    assert (await desk.ask(caller="x")).route == "a"


async def test_a_hedge_wins_and_the_loser_is_closed_with_its_cost_unknown(desk: Desk) -> None:
    desk.model = replace(desk.model, hedge_after=0.1)
    desk.a.script.append(Behaviour(do="stall"))
    answered = await desk.ask()
    assert isinstance(answered, Answered)
    assert (answered.route, answered.others.calls, charge_unknown(answered)) == ("b", 1, True)
    async with asyncio.timeout(10):
        await desk.a.gone.get()
    assert desk.dispatcher.hedges == 1
    assert [health.in_flight for health in desk.dispatcher.health()] == [0, 0]


async def test_a_reserve_serves_only_what_the_others_have_no_room_for(desk: Desk) -> None:
    main = desk.route("a", desk.a, max_concurrency=1)
    desk.model = replace(desk.model, routes=(desk.route("b", desk.b, reserve=True), main))
    assert (await desk.ask()).route == "a"
    desk.a.script.append(Behaviour(do="stall"))
    running = asyncio.create_task(desk.ask())
    await desk.a.arrived.get()
    await desk.a.arrived.get()
    assert (await desk.ask()).route == "b"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_calls_beyond_the_limit_wait_and_none_fails(desk: Desk) -> None:
    desk.model = replace(desk.model, routes=(desk.route("a", desk.a, max_concurrency=2),))
    desk.a.latency = 0.02
    outcomes = await asyncio.gather(*(desk.ask(source="batch") for _ in range(10)))
    assert all(isinstance(outcome, Answered) for outcome in outcomes)
    assert desk.a.peak == 2


@pytest.mark.parametrize("do", ["reset", "stream-error", "stall"])
async def test_a_stream_moves_on_until_it_has_shown_something(desk: Desk, do: str) -> None:
    desk.a.script.append(Behaviour(do=do) if do != "stream-error" else Behaviour(status=500))
    call = desk.call(first_byte=0.3)
    call = msgspec.structs.replace(call, body=call.body.replace(b'"m",', b'"m","stream":true,', 1))
    async with desk.dispatcher.stream(call) as begun:
        assert isinstance(begun, Streaming)
        shown = b"".join([event async for event in begun.events()])
    assert (begun.route, begun.others.calls, shown.endswith(b"data: [DONE]\n\n")) == ("b", 1, True)
