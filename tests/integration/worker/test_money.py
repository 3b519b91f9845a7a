"""What quotas and budgets do to batches: who pauses, until when, and what running requests have to do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from tests.domain import World, request
from tests.fake_upstream import Behaviour, Received
from tests.people import create_key

from ebbtide.accounts.quotas import Amounts, set_budgets, set_quotas
from ebbtide.accounts.store import Principal
from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, get_batch
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import Answered
from ebbtide.errors import LimitReached
from ebbtide.records.spend import Charge, add_charges
from ebbtide.worker.take import Round


async def spend(world: World, amount: Decimal | str, day: date | None = None, owner: Principal | None = None) -> None:
    """Charge an interactive request to an account and key."""
    who = owner or world.owner
    async with world.database.transaction() as conn:
        charge = Charge(who.account_id, who.key_id, "interactive", Usage(1, 0, 1, 0), Decimal(amount))
        await add_charges(conn, [charge], day or world.clock.now().date())


async def quota(world: World, daily: str | None = None, monthly: str | None = None) -> None:
    amounts = Amounts(_usd(daily), _usd(monthly))
    await set_quotas(world.database, world.owner.account_id, amounts, "test", world.clock.now())


async def budget(world: World, key: Principal, daily: str | None = None, monthly: str | None = None) -> None:
    amounts = Amounts(_usd(daily), _usd(monthly))
    await set_budgets(world.database, key.key_id, amounts, "test", world.clock.now())


def _usd(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


async def another_key(world: World) -> Principal:
    """The owner, with another key."""
    key, _ = await create_key(world.database, world.owner.account_id, now=world.clock.now())
    return replace(world.owner, key_id=key.id)


def waits_because(world: World, job: Job, why: str | None) -> Callable[[], Awaitable[bool]]:
    async def told() -> bool:
        moment = Moment(world.clock.now(), "internal")
        return (await get_batch(world.database, world.owner, job.id, moment)).blocked_reason == why

    return told


async def looked(world: World) -> None:
    """Wait until the worker has looked for work once more: somebody else's batch went through."""
    other = await world.account(f"other-{await world.value('select count(*) from accounts')}")
    theirs = await world.direct(request("other", "somebody else's"), owner=other)

    async def ended() -> bool:
        return bool(await world.value("select phase = 'sealed' from batch_jobs where no = $1", theirs.no))

    await world.until(ended)


async def half_minutes_until(world: World, holds: Callable[[], Awaitable[bool]]) -> None:
    """Let half minutes pass until something holds: what only waits for running requests is looked at again then."""
    for _ in range(40):
        if await holds():
            return
        await world.move(seconds=31)
        await looked(world)
    raise AssertionError("it never came to hold")


def sent(world: World) -> int:
    return sum(received.text == "Hi" for received in world.upstream.requests)


# Quotas --------------------------------------------------------------------------------------------------------------


async def test_a_spent_daily_quota_pauses_everything_until_midnight_utc(world: World) -> None:
    job, second = await world.many(3), await world.many(2, owner=await another_key(world))
    await quota(world, daily="1")
    await spend(world, "1")
    async with world.worker():
        await world.until(waits_because(world, job, "daily_quota"))
        assert await waits_because(world, second, "daily_quota")()
        await world.move(hours=11, minutes=59)
        await looked(world)
        assert sent(world) == 0
        await world.move(minutes=1)  # midnight
        assert (await world.until_ended(job)).completed == 3
        assert (await world.until_ended(second)).completed == 2


async def test_a_spent_monthly_quota_pauses_until_the_first(world: World) -> None:
    world.set(batch_completion_window_hours=0)
    job = await world.many(2)
    await quota(world, monthly="5")
    await spend(world, "5", date(2026, 3, 1))
    async with world.worker():
        await world.until(waits_because(world, job, "monthly_quota"))
        world.clock.move(days=29, hours=11, minutes=58)  # 31 March, 23:58
        await world.move()
        await looked(world)
        assert sent(world) == 0
        await world.move(minutes=2)
        assert world.clock.now().date() == date(2026, 4, 1)
        assert (await world.until_ended(job)).completed == 2


@pytest.mark.parametrize("kind", ["daily", "monthly"])
async def test_a_raised_quota_is_noticed_within_the_hour(world: World, kind: str) -> None:
    job = await world.many(2)
    await quota(world, **{kind: "1"})
    await spend(world, "2")
    async with world.worker():
        await world.until(waits_because(world, job, f"{kind}_quota"))
        await quota(world, **{kind: "10"})
        await world.move(minutes=59)
        assert (await world.until_ended(job)).completed == 2


async def test_what_a_batch_itself_costs_uses_the_quota_up(world: World) -> None:
    world.set(batch_model_concurrency=1)
    cost = await answer_cost(world)
    job = await world.many(50)
    await quota(world, daily=str(cost * 10))
    async with world.worker():
        await half_minutes_until(world, waits_because(world, job, "daily_quota"))
    now = await world.job(job)
    # Not one more than pays: the tenth takes the charges to the quota.
    assert (now.completed, now.cost_usd) == (10, cost * 10)
    assert now.status == "in_progress"


async def answer_cost(world: World) -> Decimal:
    """What one request of `world.many` costs."""
    async with world.worker():
        cost: Decimal = (await world.until_ended(await world.many(1))).cost_usd
    async with world.database.transaction() as conn:
        await conn.execute("delete from spend_days")
    world.upstream.requests.clear()
    return cost


async def test_a_neighbour_is_not_touched(world: World) -> None:
    await world.many(5)
    await quota(world, daily="0")
    neighbour = await world.account("neighbour")
    theirs = await world.many(5, owner=neighbour)
    async with world.worker():
        assert (await get_ended(world, neighbour, theirs)).completed == 5
        assert sent(world) == 5


async def get_ended(world: World, owner: Principal, job: Job) -> Job:
    async def ended() -> Job | None:
        now = await get_batch(world.database, owner, job.id)
        return now if now.has_ended else None

    found: Job = await world.until(ended)
    return found


async def test_a_paused_batch_still_expires(world: World) -> None:
    job = await world.many(2)
    await quota(world, monthly="0")
    async with world.worker():
        await world.until(waits_because(world, job, "monthly_quota"))
        await world.move(hours=24)
        ended = await world.until_ended(job)
    assert (ended.status, ended.expired, sent(world)) == ("expired", 2, 0)


async def test_the_reason_is_told_without_a_gap(world: World) -> None:
    """It is looked at again before the pause that the last look gave is over."""
    job, hands = await world.many(1), await world.hands()
    await quota(world, daily="0")
    await hands.claim()
    for _ in range(3):
        world.clock.move(seconds=56)
        await hands.claim()
        world.clock.move(seconds=5)
        assert await waits_because(world, job, "daily_quota")()


# A key's own budget --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["daily", "monthly"])
async def test_a_spent_budget_pauses_the_batches_of_that_key_alone(world: World, kind: str) -> None:
    other_key = await another_key(world)
    paused, free = await world.many(3), await world.many(3, owner=other_key)
    await budget(world, world.owner, **{kind: "1"})
    await spend(world, "1")
    async with world.worker():
        assert (await world.until_ended(free)).completed == 3
        await world.until(waits_because(world, paused, "key_budget"))
        assert sent(world) == 3
        await budget(world, world.owner, **{kind: "100"})
        await world.move(minutes=59)
        assert (await world.until_ended(paused)).completed == 3


async def test_what_other_keys_spend_is_not_in_a_keys_budget(world: World) -> None:
    await budget(world, world.owner, daily="1")
    await spend(world, "5", owner=await another_key(world))
    job = await world.many(2)
    async with world.worker():
        assert (await world.until_ended(job)).completed == 2


# Running requests ----------------------------------------------------------------------------------------------------


class Dear:
    """Requests that may cost a dollar each, never end by themselves, and time out; `most` of them ran at once."""

    REQUEST: ClassVar[dict[str, Any]] = {"text": "dear", "max_tokens": 500_000}  # at 2 USD a million

    def __init__(self, world: World) -> None:
        self._upstream = world.upstream
        self.stalls = True
        self.most = 0
        world.upstream.decide = self._decide

    def _decide(self, received: Received) -> Behaviour | None:
        if received.text != "dear" or not self.stalls:
            return None
        open_ones = [r for r in self.seen() if r.done_at is None and r.gone_at is None]
        self.most = max(self.most, len(open_ones))
        return Behaviour("stall")

    def seen(self) -> list[Received]:
        return [received for received in self._upstream.requests if received.text == "dear"]

    async def arrived(self, count: int) -> bool:
        return len(self.seen()) >= count


async def test_running_requests_count_at_what_they_may_cost_and_only_delay(world: World) -> None:
    """Each may cost a dollar and costs next to nothing: a dollar and a half lets two run, and nothing pauses."""
    await quota(world, daily="1.5")
    dear = Dear(world)
    job = await world.direct(*(request(f"r{n}", **dear.REQUEST) for n in range(6)))
    async with world.worker(grace_seconds=0.1):
        await world.until(lambda: dear.arrived(2))
        assert not await waits_because(world, job, "daily_quota")()
        await world.until(lambda: failed(world, job, 2))  # they ran into their timeout, at an unknown cost
        assert dear.most == 2
        dear.stalls = False
        await half_minutes_until(world, lambda: has_ended(world, job))
    now = await world.job(job)
    assert now.completed + now.failed == 6
    assert now.completed >= 2
    assert dear.most == 2


async def has_ended(world: World, job: Job) -> bool:
    return (await world.job(job)).has_ended


async def failed(world: World, job: Job, count: int) -> bool:
    return (await world.job(job)).failed == count


async def test_two_workers_do_not_spend_the_same_dollar(world: World) -> None:
    await quota(world, daily="2.5")
    dear = Dear(world)
    await world.direct(*(request(f"a{n}", **dear.REQUEST) for n in range(10)))
    await world.direct(*(request(f"b{n}", model="chat-2", **dear.REQUEST) for n in range(10)))
    async with world.worker(grace_seconds=0.1), world.worker(grace_seconds=0.1):
        await world.until(lambda: dear.arrived(3))
        await world.until(lambda: all_failed(world, 3))  # they ran into their timeout, in real time
        await half_minutes_until(world, lambda: dear.arrived(6))
    assert dear.most == 3


async def all_failed(world: World, count: int) -> bool:
    return bool(await world.value("select sum(failed) = $1 from batch_jobs", count))


async def test_a_keys_running_requests_delay_that_key_alone(world: World) -> None:
    other_key = await another_key(world)
    await budget(world, world.owner, daily="0.5")
    dear = Dear(world)
    await world.direct(*(request(f"r{n}", **dear.REQUEST) for n in range(4)))
    async with world.worker(grace_seconds=0.1):
        await world.until(lambda: dear.arrived(1))
        free = await world.many(5, owner=other_key)
        assert (await world.until_ended(free)).completed == 5
    assert dear.most == 1


async def test_what_waits_for_a_slot_goes_back_when_the_money_is_gone(world: World) -> None:
    world.set(batch_model_concurrency=1)
    world.upstream.latency = 600.0
    job = await world.many(4)

    async def running(count: int) -> bool:
        states = await world.states(job)
        return list(states.values()).count("running") == count

    async with world.worker():
        await world.until(lambda: running(2))  # one runs, and one waits for its slot
        await quota(world, daily="0")
        await world.move()
        await world.until(lambda: running(1))
        world.upstream.hurry()
        await world.until(waits_because(world, job, "daily_quota"))
        assert (await world.job(job)).completed == sent(world) == 1


# Creating ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("set_limit", "code"),
    [
        (lambda world: quota(world, daily="1"), "daily_quota"),
        (lambda world: quota(world, monthly="1"), "monthly_quota"),
        (lambda world: quota(world, daily="0"), "daily_quota"),
        (lambda world: budget(world, world.owner, daily="1"), "key_budget"),
        (lambda world: budget(world, world.owner, monthly="0.5"), "key_budget"),
    ],
    ids=["daily", "monthly", "zero", "key-daily", "key-monthly"],
)
async def test_creating_with_nothing_left_is_refused(
    world: World, set_limit: Callable[[World], Awaitable[None]], code: str
) -> None:
    await spend(world, "1")
    await set_limit(world)
    with pytest.raises(LimitReached) as refused:
        await world.many(1)
    assert refused.value.code == code
    assert refused.value.retry_after is not None
    assert refused.value.retry_after > 0
    assert await world.value("select count(*) from batch_jobs") == 0


async def test_a_quota_of_zero_starts_nothing_even_of_what_is_free(world: World) -> None:
    job = await world.many(2)
    await quota(world, daily="0")
    async with world.worker():
        await world.until(waits_because(world, job, "daily_quota"))
        assert sent(world) == 0


async def test_yesterdays_and_last_months_charges_do_not_count(world: World) -> None:
    await quota(world, daily="1", monthly="2")
    await spend(world, "1", date(2026, 3, 1))
    await spend(world, "100", date(2026, 2, 28))
    assert (await world.many(1)).total == 1


async def test_the_creators_key_pays(world: World) -> None:
    uploader, creator = await another_key(world), world.owner
    job = await world.many(2, owner=creator)
    async with world.worker():
        ended = await world.until_ended(job)
    rows = await world.fetch("select key_id, source, cost_usd from spend_days")
    assert [(row["key_id"], row["source"], row["cost_usd"]) for row in rows] == [
        (creator.key_id, "batch", ended.cost_usd)
    ]
    assert uploader.key_id != creator.key_id


async def test_a_claim_does_not_bring_back_what_ended_meanwhile(world: World) -> None:
    """What requests of others may cost is told by claims too: never over the settle of an account they do not hold."""
    await quota(world, daily="100")
    await world.many(1)
    hands = await world.hands()
    [work] = await hands.claim()
    assert await world.value("select sum(cost_usd) from batch_reservations") > 0
    await world.many(1, owner=await world.account("other"), model="chat-2")

    async def waiting() -> int:
        locks = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        return int(await world.value(locks))

    async def claimed_or_waiting() -> bool:
        return claim.done() or await waiting() == 2

    async with world.database.transaction() as conn:
        await conn.execute("select from batch_reservations for update")
        settle = asyncio.create_task(hands.settle((work, Answered(b"{}", Usage(1, 0, 1, 0), "r"))))
        await world.until(waiting)
        others = Round("chat-2", hands.worker_no, world.settings.current, world.clock.now())
        claim = asyncio.create_task(hands.claimer.claim(others))
        await world.until(claimed_or_waiting)
    await asyncio.gather(settle, claim)
    assert claim.result() == 1
    assert await world.value("select sum(cost_usd) from batch_reservations") == 0
