"""Counters, queues, slots and bills equal a recount at every look, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.domain import Hands, World, answered, books, failed, jsonl, request

from ebbtide.batches import closing, end_store
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.model import Job
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import Failed, Outcome
from ebbtide.errors import Conflict, EbbtideError, NotFound
from ebbtide.files import retention
from ebbtide.worker.claim import LeaseLost

CAP = 5
OUTCOMES: list[Outcome | None] = [
    answered(),
    answered("no usage", usage=None),
    failed(400),
    failed(503),
    failed(503, "model_queued", retry_after=1.0),
    failed(504, "timeout"),
    failed(502, "reset", usage=Usage(3, 0, 0, 0)),
    Failed("no_route", 503, "service_unavailable", "none is free", sent=False),
    None,
]


class Play:
    """A deployment with some workers, on which one step after the other is done. Each step may find nothing to do."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.jobs: list[Job] = []
        self.hands: list[Hands] = []
        self.stale: list[Hands] = []

    def pick(self, things: list[Any], number: int) -> Any:
        return things[number % len(things)] if things else None

    async def step(self, name: str, number: int) -> None:
        await getattr(self, name)(number)

    async def create(self, number: int) -> None:
        requests = [request(f"r{n}", model=f"chat-{1 + n % 2}") for n in range(1 + number % 7)]
        if number % 3:
            self.jobs.append(await self.world.direct(*requests))
            return
        content = jsonl([request(f"r{n}") for n in range(1 + number % 7)])
        self.jobs.append(await self.world.validated(content))

    async def claim(self, number: int) -> None:
        if len(self.hands) < 2:
            self.hands.append(await self.world.hands())
        hands: Hands = self.pick(self.hands, number)
        await hands.claim(f"chat-{1 + number % 2}")

    async def settle(self, number: int) -> None:
        hands: Hands | None = self.pick(self.hands, number)
        if hands and hands.running:
            rng = random.Random(number)
            works = rng.sample(hands.running, rng.randint(1, len(hands.running)))
            await hands.settle(*((work, rng.choice(OUTCOMES)) for work in works))

    async def succeed(self, number: int) -> None:
        hands: Hands | None = self.pick(self.hands, number)
        if hands:
            await hands.settle(*((work, answered()) for work in list(hands.running)))

    async def hand_back(self, number: int) -> None:
        hands: Hands | None = self.pick(self.hands, number)
        if hands:
            await hands.hand_back_waiting()

    async def die(self, number: int) -> None:
        hands: Hands | None = self.pick(self.hands, number)
        if hands:
            self.hands.remove(hands)
            self.stale.append(hands)
            await self.world.lapse(hands.worker_no)

    async def take_over(self, number: int) -> None:
        await self.world.take_over()

    async def late_word(self, number: int) -> None:
        hands: Hands | None = self.pick(self.stale, number)
        if hands and hands.running:
            await hands.settle((hands.running[0], self.pick(OUTCOMES, number)))
            try:
                await hands.claim()
            except LeaseLost:
                return

    async def cancel(self, number: int) -> None:
        await self._on_job(number, cancel_batch)

    async def delete(self, number: int) -> None:
        await self._on_job(number, delete_batch)

    async def fail(self, number: int) -> None:
        job: Job | None = self.pick(self.jobs, number)
        if job:
            async with self.world.database.transaction() as conn:
                await end_store.fail_batch(conn, job.no, "owner_unauthorized", "gone", self.world.clock.now())

    async def wait(self, number: int) -> None:
        self.world.clock.move(seconds=number % 30)

    async def wait_long(self, number: int) -> None:
        self.world.clock.move(hours=11)
        await closing.expire_batches(self.world.database, self.world.clock.now())

    async def close(self, number: int) -> None:
        await closing.close_batches(self.world.database, self.world.clock.now())

    async def seal(self, number: int) -> None:
        await self.world.seal()

    async def remove(self, number: int) -> None:
        later = self.world.clock.now() + retention.HIDDEN_FOR
        await closing.purge_batches(self.world.database, later)
        await retention.purge_files(self.world.database, later)

    async def _on_job(self, number: int, act: Callable[..., Awaitable[Any]]) -> None:
        job: Job | None = self.pick(self.jobs, number)
        if job is None:
            return
        try:
            await act(self.world.database, self.world.owner, job.id, self.world.clock.now())
        except (Conflict, NotFound):
            return

    async def look(self) -> None:
        assert await books(self.world.database) == {}
        slots = await self.world.value(
            """select coalesce(max(total), 0) from (
                   select sum(slots) as total from batch_slots s join workers w on w.no = s.worker_no
                   where w.ended_at is null and w.lease_until > now() group by model) s"""
        )
        assert slots <= CAP
        statuses = {row["status"] for row in await self.world.fetch("select status from batch_jobs")}
        assert statuses <= {
            *("validating", "in_progress", "finalizing", "completed"),
            *("failed", "expired", "cancelling", "cancelled"),
        }

    async def wind_up(self) -> None:
        """Whatever happened before, ordinary work brings everything to its end."""
        for hands in self.hands:
            await self.world.lapse(hands.worker_no)
        while await self.world.take_over():
            pass
        last = await self.world.hands()
        open_ones = "select count(*) from batch_jobs where phase <> 'sealed' and deleted_at is null"
        for _ in range(60):
            if not await self.world.value(open_ones):
                await self.world.lapse(last.worker_no)
                return
            for model in ("chat-1", "chat-2"):
                await last.claim(model)
                await last.settle(*((work, answered()) for work in list(last.running)))
            await self.close(0)
            await self.seal(0)
            self.world.clock.move(minutes=16)
        raise AssertionError(await self.world.fetch("select * from batch_jobs where phase <> 'sealed'"))


OFTEN = ["create", "claim", "claim", "claim", "settle", "settle", "settle", "succeed", "wait", "close"]
SELDOM = ["hand_back", "die", "take_over", "late_word", "cancel", "delete", "fail", "wait_long", "seal", "remove"]
STEPS = OFTEN + SELDOM


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 500)), min_size=25, max_size=45))
async def test_the_books_are_right_after_every_step(world: World, steps: list[tuple[str, int]]) -> None:
    world.set(batch_model_concurrency=CAP, batch_role_concurrency_internal=0, batch_max_active_per_user=10_000)
    play = Play(world)
    for name, number in steps:
        await play.step(name, number)
        await play.look()
    await play.wind_up()
    await play.look()


async def test_the_books_are_right_while_everything_happens_at_once(world: World) -> None:
    """The same steps from several tasks: what one reads another changes, and no lock waits for ever."""
    world.set(batch_model_concurrency=CAP, batch_role_concurrency_internal=0, batch_max_active_per_user=10_000)
    plays = [Play(world) for _ in range(4)]
    for play in plays:
        play.jobs = plays[0].jobs

    async def act(play: Play, seed: int) -> None:
        rng = random.Random(seed)
        await play.create(seed)
        for _ in range(40):
            try:
                await play.step(rng.choice([step for step in STEPS if step != "wait_long"]), rng.randrange(500))
            except EbbtideError as error:
                raise AssertionError(f"{error!r}: {error.message}") from error

    async def look_on(stop: asyncio.Event) -> None:
        while not stop.is_set():
            assert await books(world.database) == {}
            await asyncio.sleep(0.01)

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look_on(stop))
        acts = [group.create_task(act(play, seed)) for seed, play in enumerate(plays)]
        await asyncio.wait(acts)
        stop.set()
        await looking
    last = plays[0]
    last.hands = [hands for play in plays for hands in play.hands]
    await last.wind_up()
    await last.look()


async def test_what_is_handed_back_may_be_claimed_at_once(world: World) -> None:
    """Also where its queue had nothing more to give before a retry's time."""
    world.set(batch_model_concurrency=1)
    await world.many(2)
    hands = await world.hands()
    (first,) = await hands.claim()
    await hands.settle((first, failed(503, retry_after=60.0)))
    (second,) = await hands.claim()
    world.clock.move(seconds=1)
    await hands.settle((second, None))
    assert await books(world.database) == {}
    (again,) = await hands.claim()
    assert again.item.id == second.item.id


async def test_counters_never_flicker_while_an_item_is_tried_again(world: World) -> None:
    job = await world.many(1)
    hands = await world.hands()
    for _ in range(3):
        await hands.claim()
        await hands.settle((hands.running[0], failed(503)))
        now = await world.job(job)
        assert (now.completed, now.failed, now.cancelled, now.expired) == (0, 0, 0, 0)
        world.clock.move(minutes=1)


async def test_a_wrong_count_is_found(world: World) -> None:
    """The recount itself can fail."""
    job = await world.many(2)
    assert await books(world.database) == {}
    await world.value("update batch_jobs set completed = 1 where no = $1 returning 1", job.no)
    await world.value("update batch_queues set queued = 1 where batch_no = $1 returning 1", job.no)
    await world.value("update batch_jobs set cost_usd = 1 where no = $1 returning 1", job.no)
    assert set(await books(world.database)) == {"counters", "queues", "bills"}


async def test_a_wrong_bill_is_found_wherever_it_is(world: World) -> None:
    job = await world.many(2)
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    assert await books(world.database) == {}
    await world.value("update api_logs set cost_usd = cost_usd + 1 where batch_job_id = $1 returning 1", job.id)
    assert set(await books(world.database)) == {"log", "spend"}
    await world.value("update api_logs set cost_usd = cost_usd - 1 where batch_job_id = $1 returning 1", job.id)
    await world.value("update spend_days set requests = requests + 1 returning 1")
    reserve = "insert into batch_reservations values ($1, $2, $3, 0.5) returning 1"
    await world.value(reserve, hands.worker_no, world.owner.key_id, world.owner.account_id)
    assert set(await books(world.database)) == {"spend", "reservations"}
