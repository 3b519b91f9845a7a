"""Every rule of choosing a route, over real HTTP servers that refuse, stall, reset, answer 429 or 500, and recover."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream, Received, closed_port

from ebbtide.catalog.model import Model, Route, TimeLimits
from ebbtide.dispatch.breaker import BreakerRules
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import (
    Answered,
    Call,
    Failed,
    Outcome,
    Source,
    Timeouts,
    charge_unknown,
    is_retryable,
    used,
)
from ebbtide.dispatch.rules import Rules
from ebbtide.dispatch.send import Sender

FIRST, LAST = 1e12, 1e-12
TIMEOUTS = Timeouts(connect=2.0, total=10.0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def dispatcher(clock: Clock) -> AsyncIterator[Dispatcher]:
    rules = Rules(BreakerRules(failures=3, seconds=5.0))
    async with Sender() as sender:
        yield Dispatcher(sender, timeouts=TIMEOUTS, rules=lambda: rules, monotonic=clock)


@pytest.fixture
async def one() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def two() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


def route(server: FakeUpstream | str, name: str, weight: float = 1.0, **more: Any) -> Route:
    url = server if isinstance(server, str) else server.url
    return Route(name, "vllm", "upstream-model", url, weight=weight, **more)


def model(*routes: Route, **more: Any) -> Model:
    return Model("canonical", "chat", routes, **more)


def call(of: Model, source: Source = "interactive", caller: str | None = None, **members: Any) -> Call:
    body = {"model": "mine", "messages": [{"role": "user", "content": "hello"}]} | members
    return Call("chat", of, msgspec.json.encode(body), "mine", source, caller=caller)


def answered(outcome: Outcome) -> Answered:
    assert isinstance(outcome, Answered), outcome
    return outcome


def failed(outcome: object) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


async def streamed(dispatcher: Dispatcher, asked: Call) -> tuple[str, bytes]:
    """Route and bytes of a stream that begins."""
    async with dispatcher.stream(asked) as streaming:
        assert not isinstance(streaming, Failed), streaming
        return streaming.route, b"".join([piece async for piece in streaming.events()])


# What goes on to the next route --------------------------------------------------------------------------------------

PASSES = {
    "refused": None,
    "reset": Behaviour(do="reset"),
    "half": Behaviour(do="half"),
    "408": Behaviour(status=408),
    "429": Behaviour(status=429),
    "401": Behaviour(status=401),
    "500": Behaviour(status=500),
    "503": Behaviour(status=503),
    "queued": Behaviour(do="queued"),
    "error200": Behaviour(do="error200"),
}


@pytest.mark.parametrize("source", ["interactive", "batch"])
@pytest.mark.parametrize("how", PASSES)
async def test_what_may_pass_goes_to_the_next_route(
    how: str, source: Source, dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    behaviour = PASSES[how]
    bad = route(f"http://127.0.0.1:{closed_port()}/v1" if behaviour is None else one, "bad", FIRST)
    if behaviour is not None:
        one.script.append(behaviour)
    got = answered(await dispatcher.call(call(model(bad, route(two, "good", LAST)), source)))
    assert (got.route, one.count, two.count) == ("good", behaviour is not None, 1)
    assert got.others.calls == 1
    assert charge_unknown(got) is (how in ("reset", "half"))


@pytest.mark.parametrize("how", [how for how in PASSES if how != "half"])
async def test_a_stream_that_showed_nothing_goes_to_the_next_route(
    how: str, dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    behaviour = PASSES[how]
    bad = route(f"http://127.0.0.1:{closed_port()}/v1" if behaviour is None else one, "bad", FIRST)
    if behaviour is not None:
        one.script.append(behaviour)
    name, text = await streamed(dispatcher, call(model(bad, route(two, "good", LAST)), stream=True))
    assert (name, two.count) == ("good", 1)
    assert text.endswith(b"data: [DONE]\n\n")


async def test_nothing_is_tried_once_a_stream_has_shown_something(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.script.append(Behaviour(do="stream-reset"))
    asked = call(model(route(one, "a", FIRST), route(two, "b", LAST)), stream=True)
    async with dispatcher.stream(asked) as streaming:
        assert not isinstance(streaming, Failed)
        with pytest.raises(Exception, match="broke"):
            _ = [piece async for piece in streaming.events()]
    assert two.count == 0


async def test_never_a_second_try_at_an_endpoint_that_may_have_begun(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.script.extend([Behaviour(do="reset"), Behaviour()])
    same = model(route(one, "a", FIRST), route(one, "a2"), route(two, "b", LAST))
    assert answered(await dispatcher.call(call(same))).route == "b"
    assert (one.count, two.count) == (1, 1)


async def test_the_first_error_is_the_answer_when_all_fail(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.script.append(Behaviour(status=503, message="first"))
    two.script.append(Behaviour(status=500, message="second"))
    told = failed(await dispatcher.call(call(model(route(one, "a", FIRST), route(two, "b", LAST)))))
    assert (told.status, told.route, told.message, told.others.calls) == (503, "a", "first", 1)


# Circuits ------------------------------------------------------------------------------------------------------------


async def test_a_circuit_opens_is_tried_by_one_call_and_closes(
    dispatcher: Dispatcher, clock: Clock, one: FakeUpstream, two: FakeUpstream
) -> None:
    asked = call(model(route(one, "a", FIRST), route(two, "b", LAST)))
    one.decide = lambda _: Behaviour(status=500)
    for _ in range(10):
        assert answered(await dispatcher.call(asked)).route == "b"
    assert one.count == 3
    clock.now += 5
    for _ in range(10):
        assert answered(await dispatcher.call(asked)).route == "b"
    assert one.count == 4  # one probe, whose caller saw no error
    one.decide = None
    clock.now += 10
    assert [answered(await dispatcher.call(asked)).route for _ in range(3)] == ["a", "a", "a"]
    health = {standing.route: standing for standing in dispatcher.health()}
    assert (health["a"].state, health["a"].opened, health["a"].closed) == ("closed", 1, 1)


@pytest.mark.parametrize(("status", "opens"), [(400, False), (404, False), (422, False), (401, True), (408, True)])
async def test_which_client_errors_count(status: int, opens: bool, dispatcher: Dispatcher, one: FakeUpstream) -> None:
    one.decide = lambda _: Behaviour(status=status)
    for _ in range(5):
        await dispatcher.call(call(model(route(one, "a"))))
    assert (dispatcher.health()[0].state == "open") is opens
    assert one.count == (3 if opens else 5)


async def test_a_queued_deployment_and_a_timeout_leave_the_circuit_alone(
    dispatcher: Dispatcher, one: FakeUpstream
) -> None:
    one.script.extend([Behaviour(do="queued")] * 5 + [Behaviour(status=504)] * 5)
    for _ in range(10):
        failed(await dispatcher.call(call(model(route(one, "a")))))
    assert dispatcher.health()[0].state == "closed"


async def test_with_every_circuit_open_a_person_is_told_when_to_come_back(
    dispatcher: Dispatcher, clock: Clock, one: FakeUpstream
) -> None:
    asked = call(model(route(one, "a")))
    one.decide = lambda _: Behaviour(status=500)
    for _ in range(3):
        await dispatcher.call(asked)
    clock.now += 2
    told = failed(await dispatcher.call(asked))
    assert (told.kind, told.status, told.retry_after, told.sent, one.count) == ("no_route", 503, 3.0, False, 3)
    assert not dispatcher.is_up(asked.model, "batch")


# Keys, limits, reserve -----------------------------------------------------------------------------------------------


def key_of(received: Received) -> str:
    return received.headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("status", [401, 429])
async def test_a_refused_key_rests_and_the_pools_next_one_is_tried(
    status: int, dispatcher: Dispatcher, clock: Clock, one: FakeUpstream
) -> None:
    one.decide = lambda received: Behaviour(status=status, retry_after="40") if key_of(received) == "k1" else None
    asked = call(model(route(one, "a", api_keys=("k1", "k2"))))
    assert [answered(await dispatcher.call(asked)).others.calls for _ in range(4)] == [1, 0, 0, 0]
    assert [key_of(received) for received in one.requests] == ["k1", "k2", "k2", "k2", "k2"]
    assert dispatcher.health()[0].keys_resting == 1
    clock.now += 41 if status == 429 else 301
    assert dispatcher.health()[0].keys_resting == 0


async def test_each_route_has_all_its_keys_tried(dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream) -> None:
    one.decide = lambda received: Behaviour(status=401)
    two.decide = lambda received: Behaviour(status=401) if key_of(received) == "k3" else None
    keys = {"api_keys": ("k1", "k2")}, {"api_keys": ("k3", "k4")}
    asked = call(model(route(one, "a", FIRST, **keys[0]), route(two, "b", LAST, **keys[1])))
    told = answered(await dispatcher.call(asked))
    assert (told.route, told.others.calls) == ("b", 3)
    assert sorted(key_of(received) for received in (*one.requests, *two.requests)) == ["k1", "k2", "k3", "k4"]


async def test_a_failure_of_another_kind_uses_up_no_key(dispatcher: Dispatcher, one: FakeUpstream) -> None:
    one.decide = lambda received: Behaviour(status=401) if key_of(received) == "k1" else None
    away = route(f"http://127.0.0.1:{closed_port()}/v1", "away", FIRST)
    asked = call(model(away, route(one, "a", LAST, api_keys=("k1", "k2"))))
    assert answered(await dispatcher.call(asked)).others.calls == 2


async def test_a_route_that_is_configured_no_more_is_forgotten(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    before, after = model(route(one, "old", FIRST), route(two, "kept", LAST)), model(route(two, "kept"))
    one.latency = 30.0
    asking = asyncio.create_task(dispatcher.call(call(before)))
    await one.arrived.get()
    dispatcher.retain([after])
    answered(await dispatcher.call(call(after)))
    assert {health.route for health in dispatcher.health()} == {"old", "kept"}  # a call runs on it
    one.hurry()
    answered(await asking)
    dispatcher.retain([after])
    assert [health.route for health in dispatcher.health()] == ["kept"]


async def test_a_full_route_lets_others_take_over_and_waits_when_none_can(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.latency = two.latency = 30.0
    both = model(route(one, "a", FIRST, max_concurrency=2), route(two, "b", LAST, max_concurrency=1))
    running = [asyncio.create_task(dispatcher.call(call(both))) for _ in range(3)]
    for _ in range(2):
        await one.arrived.get()
    await two.arrived.get()
    batch = asyncio.create_task(dispatcher.call(call(both, "batch")))
    person = asyncio.create_task(dispatcher.call(call(both)))
    while dispatcher.in_flight["canonical", "interactive"] < 4:  # noqa: ASYNC110  no event tells of it
        await asyncio.sleep(0)
    assert not dispatcher.is_able(both, "interactive")
    assert (one.count, two.count) == (2, 1)
    two.hurry()
    assert answered(await running[2]).route == "b"
    await two.arrived.get()
    two.hurry()
    assert answered(await person).route == "b"  # before the batch, which came first
    await two.arrived.get()
    two.hurry()
    assert answered(await batch).route == "b"
    one.hurry()
    assert {answered(outcome).route for outcome in await asyncio.gather(*running[:2])} == {"a"}


async def test_a_429_lowers_the_limit(dispatcher: Dispatcher, one: FakeUpstream) -> None:
    one.decide = lambda _: Behaviour(status=429, latency=0.2)
    asked = call(model(route(one, "a")))
    await asyncio.gather(*(dispatcher.call(asked) for _ in range(8)))
    limit = dispatcher.health()[0].limit
    assert limit is not None
    assert 1 <= limit <= 4


async def test_a_reserve_serves_only_while_the_others_cannot(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    asked = call(model(route(two, "spare", FIRST, reserve=True), route(one, "a", LAST)))
    assert {answered(await dispatcher.call(asked)).route for _ in range(5)} == {"a"}
    one.decide = lambda _: Behaviour(status=500)
    assert {answered(await dispatcher.call(asked)).route for _ in range(5)} == {"spare"}
    assert dispatcher.offloads == 5


async def test_batch_work_never_takes_a_reserve_that_it_may_not_use(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    cloud = route(two, "cloud", reserve=True, deployment_type="provider_api")
    one.script.append(Behaviour(status=500))
    failed(await dispatcher.call(call(model(route(one, "a"), cloud), "batch")))
    assert two.count == 0


# Conversations -------------------------------------------------------------------------------------------------------


async def test_a_callers_conversation_keeps_its_route_until_that_fails(
    dispatcher: Dispatcher, clock: Clock, one: FakeUpstream, two: FakeUpstream
) -> None:
    both = model(route(one, "a"), route(two, "b"))
    mine = answered(await dispatcher.call(call(both, caller="ada"))).route
    assert {answered(await dispatcher.call(call(both, caller="ada"))).route for _ in range(20)} == {mine}
    assert len({answered(await dispatcher.call(call(both, "batch"))).route for _ in range(40)}) == 2
    assert {answered(await dispatcher.call(call(both, caller="ada"))).route for _ in range(20)} == {mine}
    (one if mine == "a" else two).script.append(Behaviour(status=500))
    other = answered(await dispatcher.call(call(both, caller="ada"))).route
    assert other != mine
    assert {answered(await dispatcher.call(call(both, caller="ada"))).route for _ in range(20)} == {other}
    clock.now += 300
    assert len({answered(await dispatcher.call(call(both, caller=str(n)))).route for n in range(40)}) == 2


# Hedging and times ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hedge_wins_over_a_stalled_route_and_the_losers_cost_is_unknown(
    stream: bool, dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.decide = lambda _: Behaviour(do="stall")
    asked = call(model(route(one, "a", FIRST), route(two, "b", LAST), hedge_after=0.05), stream=stream)
    if stream:
        assert (await streamed(dispatcher, asked))[0] == "b"
    else:
        got = answered(await dispatcher.call(asked))
        assert (got.route, got.others.calls, got.others.unknown) == ("b", 1, True)
        assert used(got) == got.usage
    async with asyncio.timeout(10):
        await one.gone.get()
    assert dispatcher.hedges == 1
    assert all(standing.in_flight == 0 for standing in dispatcher.health())


async def test_without_a_stall_no_hedge_is_sent(dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream) -> None:
    asked = call(model(route(one, "a", FIRST), route(two, "b", LAST), hedge_after=30.0))
    assert answered(await dispatcher.call(asked)).route == "a"
    assert (two.count, dispatcher.hedges) == (0, 0)


async def test_both_of_a_hedge_failing_is_the_first_error(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.decide = lambda _: Behaviour(status=503, latency=0.3)
    two.decide = lambda _: Behaviour(status=500, latency=0.6)
    asked = call(model(route(one, "a", FIRST), route(two, "b", LAST), hedge_after=0.05))
    told = failed(await dispatcher.call(asked))
    assert (told.route, told.status, told.others.calls) == ("a", 503, 1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_does_not_begin_is_left_for_a_person_and_final_for_a_batch(
    stream: bool, dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    one.decide = lambda _: Behaviour(do="stall")
    both = model(route(one, "a", FIRST), route(two, "b", LAST), time_limits=TimeLimits(first_byte=0.2))
    if stream:
        assert (await streamed(dispatcher, call(both, stream=True)))[0] == "b"
        return
    assert answered(await dispatcher.call(call(both))).route == "b"
    told = failed(await dispatcher.call(call(both, "batch")))
    assert (told.kind, told.code, told.status, two.count) == ("first_byte_timeout", "timeout", 504, 1)


async def test_a_batched_request_that_times_out_on_its_second_route_has_timed_out(
    one: FakeUpstream, two: FakeUpstream, dispatcher: Dispatcher
) -> None:
    """For good, whatever the first route said: a person's request would have gone on to a third."""
    both = model(route(one, "a", FIRST), route(two, "b", LAST), time_limits=TimeLimits(first_byte=0.2))
    one.decide = lambda _: Behaviour(status=500)
    two.decide = lambda _: Behaviour("stall")
    told = failed(await dispatcher.call(call(both, "batch")))
    assert (told.kind, told.route, is_retryable(told)) == ("first_byte_timeout", "b", False)
    told = failed(await dispatcher.call(call(both)))
    assert (told.kind, told.route) == ("status", "a")


async def test_a_models_own_times_are_told_apart(dispatcher: Dispatcher, one: FakeUpstream) -> None:
    one.script.extend([Behaviour(do="stall"), Behaviour(do="stream-stall")])
    short = model(route(one, "a"), time_limits=TimeLimits(total=0.3))
    assert failed(await dispatcher.call(call(short))).kind == "timeout"
    gaps = model(route(one, "a"), time_limits=TimeLimits(gap=0.2))
    async with dispatcher.stream(call(gaps, stream=True)) as streaming:
        assert not isinstance(streaming, Failed)
        with pytest.raises(Exception, match="nothing more"):
            _ = [piece async for piece in streaming.events()]
        assert streaming.failed is not None
        assert streaming.failed.kind == "gap_timeout"


async def test_a_models_own_total_may_be_longer_for_a_batch_and_not_for_a_person(one: FakeUpstream) -> None:
    one.latency = 0.6
    patient = model(route(one, "a"), time_limits=TimeLimits(total=30))
    short = Timeouts(total=0.2)
    async with Sender() as sender:
        dispatcher = Dispatcher(sender, timeouts=short)
        assert answered(await dispatcher.call(call(patient, "batch"))).route == "a"
        asked = msgspec.structs.replace(call(patient), timeouts=short)
        assert failed(await dispatcher.call(asked)).kind == "timeout"


async def test_weight_zero_is_configured_and_unused(
    dispatcher: Dispatcher, one: FakeUpstream, two: FakeUpstream
) -> None:
    asked = call(model(route(one, "a"), route(two, "b", 0.0)))
    one.decide = lambda _: Behaviour(status=500)
    failed(await dispatcher.call(asked))
    assert two.count == 0
