"""Workers that die, stall, stop and come back: every item ends once, and no late word changes anything."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.domain import Hands, World, answered, books, failed, jsonl, request
from tests.fake_upstream import Behaviour

from ebbtide.batches import closing
from ebbtide.catalog.catalog import Catalog
from ebbtide.delivery.seal import ANY
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Call, Outcome
from ebbtide.worker.claim import LeaseLost
from ebbtide.worker.lanes import Work
from ebbtide.worker.lines import LineCache
from ebbtide.worker.loop import Worker
from ebbtide.worker.run import Ended, Runner

HELD = "select count(*) from batch_items where state = 'running' and worker_no = $1"


async def test_a_dead_workers_items_are_taken_over_each_lost_try_on_record(world: World) -> None:
    job = await world.many(5)
    world.set(batch_model_concurrency=3)
    dead = await world.hands()
    await dead.claim()
    held = await world.value("select count(*) from batch_items where state = 'running'")
    assert await world.take_over() == 0
    await world.lapse(dead.worker_no)
    world.clock.move(minutes=2)
    assert await world.take_over() == held
    assert await world.take_over() == 0
    rows = await world.attempts(job)
    assert {(row["outcome"], row["cost_usd"], row["attempt"], row["route"]) for row in rows} == {
        ("lost", None, 1, None)
    }
    now = await world.job(job)
    assert (now.cost_unknown_attempts, now.cost_usd) == (held, Decimal(0))
    assert await world.value("select ended_at is not null from workers where no = $1", dead.worker_no)
    assert await world.value("select count(*) from batch_slots where worker_no = $1", dead.worker_no) == 0
    assert await books(world.database) == {}
    # The try is counted across the crash; the next one is the second.
    world.set(batch_model_concurrency=64)
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.completed, ended.cost_unknown_attempts) == (5, held)
    assert sorted(row["attempt"] for row in await world.attempts(job) if row["outcome"] == "completed") == [
        *[1] * (5 - held),
        *[2] * held,
    ]


async def test_a_stale_workers_late_words_change_nothing(world: World) -> None:
    job = await world.many(4)
    stale = await world.hands()
    await stale.claim()
    await world.lapse(stale.worker_no)
    await world.take_over()
    fresh = await world.hands()
    await fresh.claim()
    before = [dict(item) for item in await world.items(job)]
    late: list[Outcome | None] = [answered("late"), failed(400), failed(503), None]
    await stale.settle(*zip(list(stale.running), late, strict=True))
    assert [dict(item) for item in await world.items(job)] == before
    assert {row["outcome"] for row in await world.attempts(job)} == {"lost"}
    assert await world.value("select count(*) from batch_result_segments") == 0
    assert await books(world.database) == {}
    await fresh.settle(*((work, answered("mine")) for work in list(fresh.running)))
    assert (await world.job(job)).status == "completed"
    assert await books(world.database) == {}


async def test_take_over_goes_in_steps_and_ends_the_worker_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "_STEP_BATCHES", 2)
    world.set(batch_max_active_per_user=10)
    for _ in range(5):
        await world.many(2)
    hands = await world.hands()
    await hands.claim()
    await world.lapse(hands.worker_no)
    assert [await world.take_over() for _ in range(4)] == [4, 4, 2, 0]
    assert await world.value("select ended_at is not null from workers where no = $1", hands.worker_no)
    assert await books(world.database) == {}


async def test_two_take_overs_at_once_count_each_item_once(world: World) -> None:
    job = await world.many(30)
    hands = await world.hands()
    await hands.claim()
    await world.lapse(hands.worker_no)
    assert sum(await asyncio.gather(*(world.take_over() for _ in range(4)))) == 30
    assert len(await world.attempts(job)) == 30
    assert await books(world.database) == {}


async def test_take_overs_beside_settles_lock_nobody_out(world: World) -> None:
    """Workers that hold items of the same batches, in whatever order: batches are locked in theirs."""
    world.set(batch_max_active_per_user=100, batch_model_concurrency=60, batch_role_concurrency_internal=0)
    jobs = [await world.many(15) for _ in range(8)]
    hands = [await world.hands() for _ in range(4)]
    for each in hands:
        world.set(batch_model_concurrency=15 * (1 + hands.index(each)))
        await each.claim()
    held = sum([await world.value(HELD, each.worker_no) for each in hands[:3]])
    for each in hands[:3]:
        await world.lapse(each.worker_no)
    works = list(hands[3].running)

    async def settle() -> int:
        for start in range(0, len(works), 4):
            await hands[3].settle(*((work, answered()) for work in works[start : start + 4]))
        return 0

    assert sum(await asyncio.gather(settle(), *(world.take_over() for _ in range(3)))) == held
    assert sum([(await world.job(job)).completed for job in jobs]) == len(works) > 0
    assert await books(world.database) == {}


async def test_an_item_that_kills_its_workers_waits_longer_each_time(world: World) -> None:
    world.set(batch_completion_window_hours=0)
    job = await world.many(1)
    waits = []
    for tries in range(8):
        hands = await world.hands()
        (work,) = await hands.claim()
        assert work.item.attempts == tries
        await world.lapse(hands.worker_no)
        assert await world.take_over() == 1
        (item,) = await world.items(job)
        waits.append((item["ready_at"] - world.clock.now()).total_seconds())
        world.clock.move(seconds=waits[-1])
    assert waits[0] == 0
    assert all(5 * 2**n / 2 <= wait <= 5 * 2**n for n, wait in enumerate(waits[1:]))


@pytest.mark.parametrize("why", ["tries", "window"])
async def test_a_lost_try_after_which_there_is_none_is_the_last(world: World, why: str) -> None:
    job = await world.many(2)
    if why == "tries":
        await world.value("update batch_items set attempts = 1999 where custom_id = 'r0' returning 1")
    else:
        await world.value("update batch_items set attempts = 10 where custom_id = 'r0' returning 1")
    hands = await world.hands()
    await hands.claim()
    if why == "window":
        world.clock.move(hours=24, seconds=-1)
    await world.lapse(hands.worker_no)
    assert await world.take_over() == 2
    first, second = await world.items(job)
    assert (first["state"], first["error_code"], first["error_status"]) == ("failed", "upstream_error", 502)
    assert second["state"] == "queued"
    assert [row["outcome"] for row in await world.attempts(job)] == ["lost", "lost"]
    assert (await world.job(job)).failed == 1
    assert await books(world.database) == {}
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    assert (await world.job(job)).status == "completed"


async def test_a_worker_that_ends_with_items_in_hand_leaves_them_to_be_taken_over(world: World) -> None:
    """A claim may have committed just as its worker stopped: nobody but the database knows of those items."""
    job = await world.many(3)
    lease = world.lease()
    hands = Hands(world, await lease.register())
    await hands.claim()
    await lease.end()
    assert await world.take_over() == 3
    assert set((await world.states(job)).values()) == {"queued"}
    assert await books(world.database) == {}


async def test_a_worker_keeps_its_lease_however_long_its_items_wait(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour(latency=0.7)
    job = await world.many(3)
    world.set(batch_model_concurrency=1)
    async with world.worker(lease=world.lease(seconds=1.0, beat=0.2)):
        await world.upstream.arrived.get()

        async def third_arrived() -> bool:
            assert await world.take_over() == 0
            return world.upstream.count == 3

        await world.until(third_arrived)
        await world.until_ended(job)
    assert {row["outcome"] for row in await world.attempts(job)} == {"completed"}
    assert await world.value("select max(claim_epoch) from batch_items") == 1


async def test_losing_the_lease_cancels_the_calls_and_begins_anew(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour("stall")
    job = await world.many(2)
    async with world.worker(lease=world.lease(seconds=60, beat=0.1)):
        for _ in range(2):
            await world.upstream.arrived.get()
        old = await world.value("select max(no) from workers")
        world.upstream.decide = None
        await world.lapse(old)
        # Both calls are broken off, and what they would have said is not waited for.
        for _ in range(2):
            await asyncio.wait_for(world.upstream.gone.get(), 5)
        await world.take_over()
        ended = await world.until_ended(job)
        assert await world.value("select max(no) from workers where ended_at is null") > old
    assert (ended.completed, ended.cost_unknown_attempts) == (2, 2)
    assert {item["claim_epoch"] for item in await world.items(job)} == {2}
    assert await books(world.database) == {}


async def test_what_is_said_of_an_earlier_lease_does_not_end_this_one(world: World) -> None:
    """A claim round tells of a lost lease when all its claims have ended: the worker may have a new one by then."""
    lease = world.lease(seconds=60, beat=0.01)
    worker_no = await lease.register()
    until = "select lease_until from workers where no = $1"
    before = await world.value(until, worker_no)
    lease.lapse(worker_no - 1)
    keeping = asyncio.create_task(lease.keep())

    async def was_prolonged() -> bool:
        return bool(await world.value(until, worker_no) > before)

    await world.until(was_prolonged)
    assert not keeping.done()
    lease.lapse(worker_no)
    await asyncio.wait_for(keeping, 5)
    assert lease.worker_no is None


async def test_a_worker_without_a_lease_neither_validates_nor_seals(world: World) -> None:
    """Two that lost theirs in one outage would be the same nobody, and spoil each other's files."""
    sealing = await world.validated(jsonl([request("b")]))
    waiting = await world.from_file(jsonl([request("a")]))
    hands = await world.hands()
    await hands.claim()
    await hands.settle((hands.running[0], answered()))
    worker = Worker(world.context(), world.lease())
    assert await worker.upkeep.validate(world.clock.now()) == 0
    assert await worker.upkeep.seal(ANY) == 0
    assert [(await world.job(job)).status for job in (waiting, sealing)] == ["validating", "finalizing"]


async def test_a_stopping_worker_hands_back_what_was_not_sent_and_lets_the_rest_finish(world: World) -> None:
    world.set(batch_model_concurrency=2)
    world.upstream.decide = lambda _: Behaviour(latency=0.5)
    job = await world.many(20)
    async with world.worker():
        for _ in range(2):
            await world.upstream.arrived.get()
    # The block is left: the worker has stopped.
    assert world.upstream.count == 2
    states = list((await world.states(job)).values())
    assert (states.count("completed"), states.count("queued")) == (2, 18)
    rows = await world.attempts(job)
    assert [(row["outcome"], row["attempt"]) for row in rows] == [("completed", 1)] * 2
    assert {item["attempts"] for item in await world.items(job) if item["state"] == "queued"} == {0}
    assert await world.value("select count(*) from workers where ended_at is null") == 0
    assert await world.value("select count(*) from batch_slots") == 0
    assert await books(world.database) == {}


async def test_what_outlasts_the_grace_period_waits_again_with_its_cost_unknown(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour("stall")
    job = await world.many(1)
    async with world.worker(grace_seconds=0.1):
        await world.upstream.arrived.get()
    assert (await asyncio.wait_for(world.upstream.gone.get(), 5)).gone_at is not None
    (row,) = await world.attempts(job)
    assert (row["outcome"], row["cost_usd"]) == ("retried", None)
    assert await world.states(job) == {"r0": "queued"}
    world.upstream.decide = None
    async with world.worker():
        await world.move(seconds=10)
        ended = await world.until_ended(job)
    assert (ended.completed, ended.cost_unknown_attempts) == (1, 1)
    assert [row["attempt"] for row in await world.attempts(job)] == [1, 2]


async def test_what_was_not_sent_when_its_worker_stopped_used_no_try(world: World) -> None:
    """It had its slot, and its line was still being read."""
    job = await world.many(2)
    reading = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%select data from%'"
    async with world.database.transaction() as conn:
        await conn.execute("lock table batch_file_chunks in access exclusive mode")
        async with world.worker(grace_seconds=0.1):
            await world.until(lambda: world.value(reading))
            assert set((await world.states(job)).values()) == {"running"}
    assert world.upstream.count == 0
    assert await world.attempts(job) == []
    assert {(item["state"], item["attempts"]) for item in await world.items(job)} == {("queued", 0)}
    assert await books(world.database) == {}


async def test_what_waited_for_a_server_when_its_worker_stopped_used_no_try(world: World) -> None:
    """It had its slot, and then an interactive request took the last place on its route."""
    (chat, *others) = world.models.current.models
    narrow = replace(chat, routes=(replace(chat.routes[0], max_concurrency=1),))
    world.models.current = Catalog.of([narrow, *others])
    work = await one_claimed(world)
    world.upstream.decide = lambda _: Behaviour("stall")
    taken = asyncio.create_task(world.dispatcher.call(Call("chat", narrow, line_of(b"now"), "chat-1", "interactive")))
    await world.upstream.arrived.get()
    runner = Runner(LineCache(world.database), world.models, world.dispatcher, world.settings)
    running = asyncio.create_task(runner.run(work))
    await world.until(lambda: waits(world.dispatcher))
    running.cancel()
    assert await running == Ended(None, was_cut_off=True)
    taken.cancel()


async def one_claimed(world: World) -> Work:
    await world.many(1)
    (work,) = await (await world.hands()).claim()
    return work


def line_of(text: bytes) -> bytes:
    return b'{"model":"chat-1","messages":[{"role":"user","content":"%b"}]}' % text


async def waits(dispatcher: Dispatcher) -> bool:
    return dispatcher.in_flight["chat-1", "batch"] == 1


async def test_every_model_whose_claim_broke_is_claimed_again(world: World) -> None:
    worker = Worker(world.context(), world.lease())
    await world.many(1, model="chat-1")
    await world.many(1, model="chat-2")
    with pytest.raises(LeaseLost):
        await worker._rounds._claim_all(["chat-1", "chat-2"], worker_no=0, now=world.clock.now())
    assert worker._rounds.wanted == {"chat-1", "chat-2"}


async def test_a_cancelled_worker_still_records_what_ran(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour("stall")
    job = await world.many(2)
    worker = Worker(world.context(), world.lease())
    task = asyncio.create_task(worker.run(asyncio.Event()))
    for _ in range(2):
        await world.upstream.arrived.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [row["outcome"] for row in await world.attempts(job)] == ["retried"] * 2
    assert await books(world.database) == {}


async def test_work_goes_on_from_worker_to_worker_with_nothing_sent_twice(world: World) -> None:
    world.set(batch_model_concurrency=5)
    job = await world.validated(jsonl([request(f"r{n}", f"text {n}") for n in range(120)]))
    world.upstream.decide = lambda _: Behaviour(latency=0.002)
    for stop_at in (20, 60):
        async with world.worker():
            await world.until(lambda n=stop_at: enough(world, n))  # type: ignore[misc]  # bound
        assert await books(world.database) == {}
    async with world.worker(), world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.completed) == ("completed", 120)
    texts = [received.text for received in world.upstream.requests]
    assert len(texts) == len(set(texts)) == 120
    assert world.upstream.peak <= 5
    assert await books(world.database) == {}


async def enough(world: World, count: int) -> bool:
    return world.upstream.count >= count


async def test_a_worker_that_is_well_says_so(world: World) -> None:
    async with world.worker() as worker:
        await world.until_ended(await world.many(1))
        assert await worker.check() is None


async def test_workers_that_ended_long_ago_are_forgotten(world: World) -> None:
    old, recent, living = [await world.worker_no() for _ in range(3)]
    ended = "update workers set ended_at = now() - $2::interval where no = $1 returning 1"
    await world.value(ended, old, timedelta(days=8))
    await world.value(ended, recent, timedelta(days=6))
    for worker_no in (old, recent):
        await world.value("insert into batch_reservations values ($1, 'k', 'a', 0.5) returning 1", worker_no)
    running = "select no from workers where host <> 'test' and ended_at is null"

    async def pruned() -> bool:
        return not await world.value("select exists (select from workers where no = $1)", old)

    async with world.worker():
        await world.until(pruned)
        mine = await world.value(running)
    left = {row["no"] for row in await world.fetch("select no from workers")}
    assert left == {recent, living, mine}
    assert await world.value("select array_agg(worker_no) from batch_reservations") == [recent]
