"""When a model rests, and what brings it back: failures in a row, a probe, a deployment that is queued."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from tests.domain import World, request
from tests.fake_upstream import Behaviour, Received

from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, get_batch

FAILS = Behaviour(status=500)


async def state(world: World, model: str = "chat-1") -> Any:
    rows = await world.fetch("select * from batch_model_state where model = $1", model)
    return rows[0] if rows else None


async def rest_seconds(world: World, level: int, model: str = "chat-1") -> float:
    """How long the model rests from now, once it has been laid to rest for the `level`th time."""

    async def rests() -> datetime | None:
        now = await state(world, model)
        return now["rest_until"] if now is not None and now["rest_level"] == level else None

    until: datetime = await world.until(rests)
    return (until - world.clock.now()).total_seconds()


async def waits_because(world: World, job: Job, why: str | None) -> None:
    """Wait until the batch tells that reason for waiting."""

    async def told() -> bool:
        moment = Moment(world.clock.now(), "internal")
        return (await get_batch(world.database, world.owner, job.id, moment)).blocked_reason == why

    await world.until(told)


async def test_five_failures_in_a_row_rest_it_and_each_probe_that_fails_doubles_the_rest(world: World) -> None:
    world.set(batch_model_concurrency=1, batch_completion_window_hours=0)
    world.upstream.decide = always(FAILS)
    job = await world.many(20)
    async with world.worker():
        rests = [await rest_seconds(world, 1)]
        assert sent(world) == 5
        await waits_because(world, job, "model_paused")
        for level in range(2, 8):
            await world.move(seconds=rests[-1] - 0.5)
            await looked(world)
            assert sent(world) == 3 + level  # nothing while it rests
            await world.move(seconds=1)
            rests.append(await rest_seconds(world, level))
            assert sent(world) == 4 + level  # one probe, not more
        assert rests == [30, 60, 120, 240, 480, 900, 900]

        world.upstream.decide = None
        await world.move(seconds=901)
        assert (await world.until_ended(job)).completed == 20
    now = await state(world)
    assert (now["failures"], now["rest_level"], now["rest_until"], now["rest_reason"]) == (0, 0, None, None)


async def looked(world: World) -> None:
    """Wait until the worker has looked for work once more: a batch on another model went through."""
    await world.until_ended(await world.direct(request("other", model="chat-2")))


def sent(world: World) -> int:
    """How many requests of `world.many` the upstream has seen."""
    return sum(received.text == "Hi" for received in world.upstream.requests)


def always(behaviour: Behaviour) -> Callable[[Received], Behaviour | None]:
    """What every request of `world.many` meets, and no other."""
    return lambda received: behaviour if received.text == "Hi" else None


async def test_one_probe_goes_however_many_slots_there_are(world: World) -> None:
    world.set(batch_model_concurrency=8)
    world.upstream.decide = always(FAILS)
    job = await world.many(30)
    async with world.worker():
        await rest_seconds(world, 1)
        await world.until(lambda: quiet(world))
        before = sent(world)
        world.upstream.decide = always(Behaviour("stall"))
        await world.move(seconds=31)
        await world.until(lambda: arrived(world, before + 1))
        await looked(world)
        await looked(world)
        assert sent(world) == before + 1
        await waits_because(world, job, None)  # the probe runs


async def quiet(world: World) -> bool:
    """Whether nothing runs any more."""
    return not await world.value("select exists (select from batch_items where state = 'running')")


async def arrived(world: World, count: int) -> bool:
    return sent(world) >= count


async def test_a_success_between_failures_starts_the_count_anew(world: World) -> None:
    world.set(batch_model_concurrency=1)
    texts = ["bad"] * 4 + ["good"] + ["bad"] * 4 + ["good"]
    world.upstream.decide = lambda received: FAILS if received.text == "bad" else None
    job = await world.direct(*(request(f"r{n}", text) for n, text in enumerate(texts)))
    async with world.worker():
        await world.until(lambda: tried_all(world, job))
    now = await state(world)
    assert (now["failures"], now["rest_level"], now["rest_until"]) == (0, 0, None)


async def tried_all(world: World, job: Job) -> bool:
    return all(item["attempts"] for item in await world.items(job))


@pytest.mark.parametrize("how", ["status=400", "status=404", "status=429", "status=504", "stall"])
async def test_timeouts_and_refusals_say_nothing_of_its_health(world: World, how: str) -> None:
    world.set(batch_model_concurrency=4)
    job = await world.direct(*(request(f"r{n}", f"behave:{how}") for n in range(8)))
    async with world.worker():
        await world.until(lambda: tried_all(world, job), within=30)
    now = await state(world)
    assert now is None or (now["failures"], now["rest_until"]) == (0, None)


async def test_failures_that_were_under_way_when_it_was_laid_to_rest_do_not_lengthen_it(world: World) -> None:
    world.set(batch_model_concurrency=12)
    world.upstream.decide = always(FAILS)
    await world.many(12)
    async with world.worker():
        assert await rest_seconds(world, 1) == 30
        await world.until(lambda: quiet(world))
    assert (await state(world))["rest_level"] == 1


async def test_a_resting_model_stops_no_other_and_no_interactive_request(world: World) -> None:
    world.upstream.decide = always(FAILS)
    await world.many(10)
    other = await world.many(10, model="chat-2", text="Hello")
    async with world.worker():
        await rest_seconds(world, 1)
        assert (await world.until_ended(other)).completed == 10
    assert await state(world, "chat-2") is None


# A deployment that is queued -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry_after", "rests", "waits"),
    [("45", 45, 45), (None, 120, 120), ("-3", 120, 120), ("NaN", 120, 120), ("7200", 900, 7200), ("1e9", 900, 604800)],
)
async def test_a_queued_deployment_rests_it_as_long_as_it_asks(
    world: World, retry_after: str | None, rests: float, waits: float
) -> None:
    world.set(batch_completion_window_hours=0, batch_model_concurrency=1)
    world.upstream.decide = always(Behaviour("queued", retry_after=retry_after))
    job = await world.many(3)
    async with world.worker():
        await world.until(lambda: waits_for_capacity(world))
        await waits_because(world, job, "model_queued")
    now = await state(world)
    assert (now["rest_until"] - world.clock.now()).total_seconds() == rests
    assert (now["failures"], now["rest_level"], now["waiting_since"]) == (0, 0, world.clock.now())
    first, *others = await world.items(job)
    assert (first["attempts"], (first["ready_at"] - world.clock.now()).total_seconds()) == (0, waits)
    assert [(item["attempts"], item["ready_at"]) for item in others] == [(0, world.clock.now())] * 2
    assert sent(world) == 1


async def waits_for_capacity(world: World) -> bool:
    now = await state(world)
    return now is not None and now["waiting_since"] is not None


async def test_a_wait_for_capacity_is_one_wait_until_it_serves(world: World) -> None:
    world.set(batch_model_concurrency=1)
    world.upstream.script.extend([Behaviour("queued", retry_after="100")] * 3)
    job = await world.many(1)
    began = world.clock.now()
    async with world.worker():
        for times in (1, 2, 3):
            await world.until(lambda n=times: asked(world, job, n))  # type: ignore[misc]  # a loop variable, bound
            assert (await state(world))["waiting_since"] == began
            await world.move(seconds=101)
        ended = await world.until_ended(job)
    assert (ended.completed, (await world.items(job))[0]["attempts"]) == (1, 1)
    assert (await state(world))["waiting_since"] is None


async def asked(world: World, job: Job, times: int) -> bool:
    (item,) = await world.items(job)
    return bool(item["claim_epoch"] == times and item["state"] == "queued")


async def test_being_queued_neither_counts_as_a_failure_nor_clears_failures(world: World) -> None:
    world.set(batch_model_concurrency=1)
    world.upstream.script.extend([FAILS] * 4 + [Behaviour("queued", retry_after="10")])
    await world.many(9)
    async with world.worker():
        await world.until(lambda: waits_for_capacity(world))
        now = await state(world)
        assert (now["failures"], now["rest_reason"]) == (4, "model_queued")
        world.upstream.decide = always(FAILS)
        await world.move(seconds=11)
        assert await rest_seconds(world, 1) == 30  # the fifth failure in a row
    assert (await state(world))["rest_reason"] == "model_paused"
