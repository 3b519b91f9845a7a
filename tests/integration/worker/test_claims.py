"""Claims: never two for one item, never over a cap, fair to accounts and batches, blind to what cannot start."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace

import pytest
import structlog
from tests.domain import Hands, World, answered, books, failed, insert_open
from tests.fake_upstream import Behaviour

from ebbtide.accounts.quotas import Cap, set_concurrency
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import claim_store as store
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.model import Job
from ebbtide.catalog.catalog import Catalog
from ebbtide.dispatch.outcome import Outcome
from ebbtide.worker.claim import LeaseLost


async def open_batch(world: World, count: int, *, owner: Principal | None = None, model: str = "chat-1") -> int:
    async with world.database.transaction() as conn:
        return await insert_open(conn, owner or world.owner, {model: count})


async def held_slots(world: World) -> int:
    total: int = await world.value(
        """select coalesce(sum(slots), 0)::int from batch_slots s join workers w on w.no = s.worker_no
           where w.ended_at is null and w.lease_until > now()"""
    )
    return total


async def test_many_workers_at_once_never_take_one_item_twice(world: World) -> None:
    world.set(batch_model_concurrency=60, batch_role_concurrency_internal=0)
    await open_batch(world, 300)
    hands = [await world.hands() for _ in range(6)]
    for _ in range(4):
        await asyncio.gather(*(each.claim() for each in hands))
    claimed = [work.item.id for each in hands for work in each.running]
    waiting = [
        work.item.id for each in hands for lane in each.lanes.of_model("chat-1").values() for work in lane.waiting
    ]
    assert len(claimed) + len(waiting) == len(set(claimed + waiting))
    assert len(claimed) <= 60
    assert await held_slots(world) <= 60
    assert await world.value("select max(claim_epoch) from batch_items") == 1
    assert await books(world.database) == {}


async def test_the_cap_is_one_for_all_workers_and_follows_its_setting(world: World) -> None:
    world.set(batch_role_concurrency_internal=0, batch_model_concurrency=10)
    await open_batch(world, 200)
    first, second = await world.hands(), await world.hands()
    assert len(await first.claim()) == 10
    assert await second.claim() == []
    # One that wants more is heard: as slots come free, the other keeps no more than its part.
    await first.settle(*((work, answered()) for work in first.running[:6]))
    await first.claim()
    await second.claim()
    assert len(first.running) + len(second.running) <= 10
    await first.settle(*((work, answered()) for work in first.running[5:]))
    await first.claim()
    await second.claim()
    assert (len(first.running), len(second.running)) == (5, 5)
    # Down: nothing that runs is stopped, and nothing starts until there is room.
    world.set(batch_model_concurrency=4)
    for hands in (first, second):
        await hands.claim()
        await hands.settle((hands.running[0], answered()))
    assert len(first.running) + len(second.running) == 8
    await first.settle(*((work, answered()) for work in list(first.running)))
    await second.settle(*((work, answered()) for work in second.running[2:]))
    for hands in (first, second, first, second):
        await hands.claim()
    assert len(first.running) + len(second.running) <= 4
    # Up again.
    world.set(batch_model_concurrency=30)
    for hands in (first, second, first, second):
        await hands.claim()
    assert len(first.running) + len(second.running) == 30
    assert await books(world.database) == {}


async def test_a_cap_of_nothing_and_batch_off_start_nothing(world: World) -> None:
    await open_batch(world, 5)
    hands = await world.hands()
    world.set(batch_model_concurrency=0)
    assert await hands.claim() == []
    world.set(batch_model_concurrency=5, batch_enabled=False)
    assert await hands.claim() == []
    assert await world.value("select count(*) from batch_items where state <> 'queued'") == 0
    world.set(batch_enabled=True)
    assert len(await hands.claim()) == 5


async def test_a_worker_tells_that_batch_work_is_off(world: World) -> None:
    world.set(batch_enabled=False)
    with structlog.testing.capture_logs() as told:
        async with world.worker():

            async def is_told() -> bool:
                return "batch_worker_disabled" in [entry["event"] for entry in told]

            await world.until(is_told)


async def test_an_account_stays_within_its_roles_cap_over_all_models(world: World) -> None:
    world.set(batch_role_concurrency_internal=3)
    await open_batch(world, 20)
    await open_batch(world, 20, model="chat-2")
    hands = await world.hands()
    assert len(await hands.claim("chat-1")) == 3
    assert await hands.claim("chat-2") == []
    await hands.settle((hands.running[0], answered()))
    await hands.claim("chat-2")
    assert len(hands.running) <= 3


async def test_a_roles_cap_is_one_over_all_workers_and_models(world: World) -> None:
    world.set(batch_role_concurrency_internal=3)
    await open_batch(world, 20)
    await open_batch(world, 20, model="chat-2")
    first, second = await world.hands(), await world.hands()
    assert (len(await first.claim()), len(await second.claim())) == (3, 0)
    assert await second.claim("chat-2") == []
    await first.settle((first.running[0], answered()))
    await first.claim()
    await second.claim()
    assert len(first.running) + len(second.running) == 3
    # What one that is gone held is free for the others.
    await world.lapse(first.worker_no)
    assert len(await second.claim()) == 3


async def test_an_accounts_own_cap_goes_before_its_roles(world: World) -> None:
    world.set(batch_role_concurrency_internal=3)
    await open_batch(world, 20)
    hands = await world.hands()
    for cap, running in ((2, 2), (0, 20), (None, 20)):
        wish = Cap("batch_max_concurrency", cap)
        await set_concurrency(world.database, world.owner.account_id, wish, "cli:root", world.clock.now())
        await hands.claim()
        assert len(hands.running) == running
    await hands.settle(*((work, answered()) for work in hands.running[2:]))
    await open_batch(world, 20)
    await hands.claim()
    assert len(hands.running) == 3


async def test_slots_of_a_model_move_to_a_worker_whose_account_is_at_its_cap_elsewhere(world: World) -> None:
    """It says what it could use, so that the one that holds everything goes back to its part of the model."""
    world.set(batch_role_concurrency_internal=4, batch_model_concurrency=4)
    await open_batch(world, 200)
    first, second = await world.hands(), await world.hands()
    assert (len(await first.claim()), len(await second.claim())) == (4, 0)
    assert await world.value("select wanted from batch_slots where worker_no = $1", second.worker_no) > 0
    await first.settle(*((work, answered()) for work in list(first.running)))
    await first.claim()
    await second.claim()
    assert (len(first.running), len(second.running)) == (2, 2)


async def test_only_an_account_that_has_all_it_may_is_told_to_be_at_its_cap(world: World) -> None:
    await open_batch(world, 50)
    hands = await world.hands()
    for room, is_at_cap in ((2, False), (20, True), (3, False)):  # else the model's cap holds it back
        world.set(batch_role_concurrency_internal=8, batch_model_concurrency=room)
        await hands.claim()
        assert await world.value("select at_cap from batch_user_state") is is_at_cap


async def test_what_was_claimed_ahead_stays_within_the_roles_cap(world: World) -> None:
    """The last items of an account are all claimed: there is no candidate left to tell its role."""
    world.set(batch_role_concurrency_internal=2)
    await open_batch(world, 3)
    hands = await world.hands()
    for _ in range(3):
        await hands.claim()
        assert len(hands.running) == 2
    await hands.settle((hands.running[0], answered()))
    await hands.claim()
    assert len(hands.running) == 2


async def test_a_worker_whose_lease_lapsed_claims_nothing(world: World) -> None:
    await open_batch(world, 5)
    hands = await world.hands()
    await world.lapse(hands.worker_no)
    with pytest.raises(LeaseLost):
        await hands.claim()
    assert await world.value("select count(*) from batch_items where state <> 'queued'") == 0


async def test_orphans_never_fill_a_claim(world: World) -> None:
    """Items of deleted, cancelled, failing and expired batches stay queued for a while and must not be counted."""
    world.set(batch_model_concurrency=4)
    now = world.clock.now()
    for _ in range(3):
        job = await world.many(10)
        await delete_batch(world.database, world.owner, job.id, now)
    job = await world.many(10)
    await cancel_batch(world.database, world.owner, job.id, now)
    over = await world.many(10)
    await world.value("update batch_jobs set expires_at = $2 where no = $1 returning 1", over.no, now)
    unknown = await world.many(10)
    await world.value("update batch_jobs set schema_version = 9 where no = $1 returning 1", unknown.no)
    good = await world.many(10)
    hands = await world.hands()
    assert {work.batch.no for work in await hands.claim()} == {good.no}
    assert len(hands.running) == 4


# The batch $1 another 1,999 times.
_COPIES = (
    """insert into batch_jobs (id, account_id, key_id, api_surface, target, input_id, completion_window, retention_days,
           phase, created_at, total)
       select id || n, account_id, key_id, api_surface, target, input_id, completion_window, retention_days, phase,
           created_at, total from batch_jobs, generate_series(1, 1999) n where no = $1""",
    """insert into batch_items (batch_no, model, ready_at, custom_id, chunk, line_offset, line_length)
       select j.no, i.model, ready_at, custom_id, chunk, line_offset, line_length
       from batch_jobs j, batch_items i where i.batch_no = $1 and j.no > $1 order by j.no, i.id""",
    """insert into batch_queues (batch_no, model, queued, next_ready_at)
       select j.no, q.model, queued, next_ready_at
       from batch_jobs j, batch_queues q where q.batch_no = $1 and j.no > $1""",
)


async def test_two_thousand_small_batches_fill_every_slot(own_world: World) -> None:
    world = own_world
    world.set(batch_model_concurrency=64, batch_role_concurrency_internal=0)
    async with world.database.transaction() as conn:
        first = await insert_open(conn, world.owner, {"chat-1": 20})
        for sql in _COPIES:
            await conn.execute(sql, first)
    assert await world.value("select count(*) from batch_items") == 40_000
    hands = await world.hands()
    assert len(await hands.claim()) == 64
    for _ in range(10):
        await hands.settle(*((work, answered()) for work in list(hands.running)))
        await hands.claim()
        assert len(hands.running) == 64


async def test_one_request_batches_run_side_by_side(world: World) -> None:
    world.set(batch_max_active_per_user=1_000)
    for _ in range(70):
        await world.many(1)
    hands = await world.hands()
    assert len(await hands.claim()) == 64


async def test_items_of_a_batch_start_in_order_and_a_retry_waits_its_time(world: World) -> None:
    world.set(batch_model_concurrency=1)
    job = await world.many(4)
    hands = await world.hands()
    (first,) = await hands.claim()
    assert first.item.custom_id == "r0"
    await hands.settle((first, failed(503)))
    order = []
    for _ in range(3):
        await hands.claim()
        order.append(hands.running[0].item.custom_id)
        await hands.settle((hands.running[0], answered()))
    assert order == ["r1", "r2", "r3"]
    # Not ready yet: no slot is spent on it.
    assert await hands.claim() == []
    assert await held_slots(world) == 0
    world.clock.move(seconds=6)
    (again,) = await hands.claim()
    assert (again.item.custom_id, again.item.attempts, again.item.claim_epoch) == ("r0", 1, 2)
    assert (await world.states(job))["r0"] == "running"


async def test_batches_of_equal_rank_go_oldest_first(world: World) -> None:
    world.set(batch_model_concurrency=6)
    numbers = [await open_batch(world, 2) for _ in range(4)]
    hands = await world.hands()
    await hands.claim()
    assert [work.batch.no for work in hands.running] == [no for no in numbers[:3] for _ in range(2)]


async def test_accounts_share_a_model_and_the_one_served_least_comes_first(world: World) -> None:
    world.set(batch_model_concurrency=8)
    other = await world.account("other")
    await open_batch(world, 500)
    hands = await world.hands()
    for _ in range(5):
        await hands.claim()
        await hands.settle(*((work, answered()) for work in list(hands.running)))
    await open_batch(world, 500, owner=other)
    await hands.claim()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    await hands.claim()
    by_account = Counter(work.batch.account_id for work in hands.running)
    # It has had none yet, so it catches up first.
    assert by_account[other.account_id] > by_account[world.owner.account_id]
    for _ in range(12):
        await hands.settle(*((work, answered()) for work in list(hands.running)))
        await hands.claim()
    by_account = Counter(work.batch.account_id for work in hands.running)
    assert by_account[other.account_id] == by_account[world.owner.account_id] == 4


async def test_a_small_batch_behind_a_huge_one_takes_time_in_proportion_to_itself(world: World) -> None:
    world.set(batch_model_concurrency=10)
    await open_batch(world, 5_000)
    hands = await world.hands()
    await hands.claim()
    small = await world.many(20)
    rounds = 0
    while (await world.job(small)).status != "completed":
        await hands.settle(*((work, answered()) for work in list(hands.running)))
        await hands.claim()
        rounds += 1
        assert rounds <= 8
    # Alone it would have taken two rounds.
    assert rounds >= 2


async def test_a_failing_batch_stops_no_other(world: World) -> None:
    world.set(batch_model_concurrency=4)
    failing, good = await world.many(40), await world.many(40)
    hands = await world.hands()
    rounds = 0
    while (await world.job(good)).status != "completed":
        await hands.claim()
        await hands.settle(
            *((work, failed(500) if work.batch.no == failing.no else answered()) for work in list(hands.running))
        )
        # The model may have been laid to rest meanwhile.
        world.clock.move(seconds=30)
        rounds += 1
        assert rounds <= 60
    assert set((await world.states(failing)).values()) <= {"queued", "running"}


@pytest.mark.parametrize("failing_first", [True, False])
async def test_a_batch_that_only_fails_does_not_keep_its_model_at_rest(world: World, failing_first: bool) -> None:
    """After each rest another batch is asked whether the model is well again."""
    world.set(batch_model_concurrency=5)
    made = [await world.many(100), await world.many(3)]
    failing, good = made if failing_first else made[::-1]
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, failed(500)) for work in list(hands.running)))
    assert await hands.claim() == []
    for _ in range(4):
        world.clock.move(minutes=16)
        await hands.claim()
        probes = list(hands.running)
        assert len(probes) == 1
        await hands.settle((probes[0], failed(500) if probes[0].batch.no == failing.no else answered()))
        if (await world.job(good)).completed:
            return
        assert await hands.claim() == []
    raise AssertionError("the good batch was never asked")


async def test_no_more_are_started_than_their_routes_take_at_once(world: World) -> None:
    """What would only wait for room on a route stays in its queue, where a cancel still reaches it."""
    (chat, *others) = world.models.current.models
    world.models.current = Catalog.of([replace(chat, routes=(replace(chat.routes[0], max_concurrency=2),)), *others])
    world.upstream.decide = lambda _: Behaviour("stall")
    job = await world.many(20)
    async with world.worker(grace_seconds=0.1):
        for _ in range(2):
            await world.upstream.arrived.get()
        await cancel_batch(world.database, world.owner, job.id, world.clock.now())
        await world.until(lambda: reaches(world, job, cancelled=18))
        assert (await world.value("select sum(slots) from batch_slots"), world.upstream.count) == (2, 2)


async def reaches(world: World, job: Job, *, cancelled: int) -> bool:
    return (await world.job(job)).cancelled == cancelled


async def test_a_worker_whose_routes_are_full_asks_nobody_for_slots(world: World) -> None:
    (chat, *others) = world.models.current.models
    world.models.current = Catalog.of([replace(chat, routes=(replace(chat.routes[0], max_concurrency=2),)), *others])
    await open_batch(world, 20)
    hands = await world.hands()
    await hands.claim()
    assert len(hands.running) == 2
    assert await world.fetch("select slots, wanted from batch_slots") == [(2, 0)]


@pytest.mark.parametrize("is_one_account", [True, False])
@pytest.mark.parametrize("says_nothing", [failed(400), failed(504, "timeout")], ids=["refused", "timed out"])
async def test_probes_that_say_nothing_of_the_models_health_keep_it_from_nobody(
    world: World, is_one_account: bool, says_nothing: Outcome
) -> None:
    world.set(batch_model_concurrency=5)
    other = world.owner if is_one_account else await world.account("other")
    silent, good = await world.many(100), await world.many(3, owner=other)
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, failed(500)) for work in list(hands.running)))
    world.clock.move(minutes=16)
    for _ in range(3):
        await hands.claim()
        (probe,) = hands.running
        if probe.batch.no == good.no:
            return
        await hands.settle((probe, says_nothing))
    raise AssertionError(f"only {silent.id} was asked")


async def test_a_role_that_was_lowered_starts_nothing_and_frees_its_slots(world: World) -> None:
    world.set(batch_model_concurrency=4)
    other = await world.account("other")
    await open_batch(world, 20)
    await open_batch(world, 20, owner=other)
    await world.value("update accounts set role = 'pro' where id = $1 returning 1", world.owner.account_id)
    hands = await world.hands()
    await hands.claim()
    assert {work.batch.account_id for work in hands.running} == {other.account_id}
    assert len(hands.running) == 4
    world.set(batch_min_role=Role.PRO.value)
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    await hands.claim()
    assert world.owner.account_id in {work.batch.account_id for work in hands.running}


async def test_a_claim_lost_with_the_lease_is_not_started(world: World) -> None:
    """The lease is lost while a claim is on its way: what it brings belongs to others by now."""
    await open_batch(world, 5)
    hands = await world.hands()
    async with world.database.transaction() as conn:
        await conn.execute("select pg_advisory_xact_lock(hashtextextended('ebbtide.claim.chat-1', 0))")
        claiming = asyncio.create_task(hands.claim())
        waits = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"
        await world.until(lambda: world.value(waits))
        hands.lanes.clear()
    await claiming
    assert hands.running == []
    await world.lapse(hands.worker_no)
    assert await world.take_over() > 0
    assert len(await (await world.hands()).claim()) == 5


async def test_random_turns_of_three_workers_stay_within_the_cap(world: World) -> None:
    rng = random.Random(7)
    world.set(batch_model_concurrency=9, batch_role_concurrency_internal=4)
    owners = [world.owner, await world.account("b"), await world.account("c")]
    for owner in owners:
        for size in (3, 40, 15):
            await open_batch(world, size, owner=owner)
    workers: list[Hands] = [await world.hands() for _ in range(3)]
    for _ in range(120):
        hands = rng.choice(workers)
        if rng.random() < 0.5:
            await hands.claim()
        elif hands.running:
            some = rng.sample(hands.running, rng.randint(1, len(hands.running)))
            await hands.settle(*((work, answered() if rng.random() < 0.8 else failed(503)) for work in some))
        assert sum(len(each.running) for each in workers) <= 9
        for each in workers:
            assert max(Counter(work.batch.account_id for work in each.running).values(), default=0) <= 4
    assert await books(world.database) == {}


async def test_what_waits_at_a_worker_may_not_start_once_its_creators_role_is_lowered(world: World) -> None:
    job = await world.many(2)

    async def unstartable(min_role: Role) -> set[int]:
        async with world.database.connection() as conn:
            return await store.unstartable_batches(conn, [job.no], min_role, world.clock.now())

    assert await unstartable(Role.INTERNAL) == set()
    await world.value("update accounts set role = 'pro' where id = $1 returning 1", world.owner.account_id)
    assert await unstartable(Role.INTERNAL) == {job.no}
    assert await unstartable(Role.PRO) == set()
