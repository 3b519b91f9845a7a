"""Outcomes put on record: many in one settle, those that cannot be stored, and the service they count as."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from tests.domain import World, answered, books, failed, jsonl, request
from tests.logs import told

from ebbtide.batches.model import Job
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import Answered


async def test_an_outcome_that_cannot_be_stored_fails_alone(world: World) -> None:
    job = await world.many(9)
    hands = await world.hands()
    await hands.claim()
    # More tokens than the column holds.
    poison = Answered(b"{}", Usage(10**12, 0, 1, 0), "r")
    works = list(hands.running)
    with capture_logs() as logs:
        await hands.settle(*((work, poison if n == 4 else answered()) for n, work in enumerate(works)))
    # The second time without its bill, which is what cannot be stored.
    unstorable = told(logs, "outcome_unstorable", "outcome_lost")
    assert [(entry["event"], entry["item"]) for entry in unstorable] == [("outcome_unstorable", works[4].item.id)] * 2
    ended = await world.job(job)
    assert (ended.status, ended.completed, ended.failed, ended.cost_unknown_attempts) == ("completed", 8, 1, 1)
    assert (await world.states(job))["r4"] == "failed"
    (item,) = [item for item in await world.items(job) if item["state"] == "failed"]
    assert (item["error_code"], item["error_status"]) == ("upstream_error", 500)
    assert await books(world.database) == {}


async def test_what_an_outcome_that_cannot_be_stored_cost_stays_known(world: World) -> None:
    job = await world.many(2)
    hands = await world.hands()
    await hands.claim()
    # A status that the column does not hold.
    poison = Answered(b"{}", Usage(10, 4, 5, 1), "r", status=10**6)
    await hands.settle((hands.running[0], poison), (hands.running[1], answered()))
    ended = await world.job(job)
    assert (ended.completed, ended.failed, ended.cost_unknown_attempts) == (1, 1, 0)
    first, second = await world.attempts(job)
    assert (first["outcome"], first["cost_usd"]) == ("failed", second["cost_usd"])
    assert ended.cost_usd == 2 * second["cost_usd"] > 0
    assert await books(world.database) == {}


async def test_outcomes_of_many_batches_and_kinds_in_one_settle(world: World) -> None:
    jobs: list[Job] = [await world.many(4), await world.validated(jsonl([request(f"f{n}") for n in range(4)]))]
    hands = await world.hands()
    await hands.claim()
    for batch in jobs:
        works = [work for work in hands.running if work.batch.no == batch.no]
        await hands.settle(*zip(works, [answered("x" * 900_000), failed(400), failed(503), None], strict=True))
    for batch in jobs:
        now = await world.job(batch)
        assert (now.completed, now.failed, now.status) == (1, 1, "in_progress")
    assert await books(world.database) == {}


async def test_recent_service_halves_every_five_minutes(world: World) -> None:
    await world.many(8)
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered()) for work in hands.running[:4]))
    service = "select service_seconds from batch_user_state"
    assert await world.value(service) == pytest.approx(4)
    world.clock.move(minutes=10)
    await hands.settle(*((work, answered()) for work in hands.running[:2]))
    assert await world.value(service) == pytest.approx(4 / 4 + 2)


@pytest.mark.parametrize("idle", [timedelta(hours=8), timedelta(days=4), timedelta(days=30), timedelta(days=4_000)])
async def test_an_account_that_was_idle_for_long_runs_again(world: World, idle: timedelta) -> None:
    """Halved so often, its recent service becomes smaller than any number that is not nothing."""
    world.set(batch_completion_window_hours=0)
    hands = await world.hands()
    for _ in range(4):
        await world.many(3)
        await hands.claim()
        first, *others = hands.running
        # Nothing but hand-backs adds nothing, and halves all the same.
        await hands.settle((first, None))
        world.clock.move(seconds=idle.total_seconds())
        await hands.claim()
        await hands.settle(*((work, answered()) for work in others))
        await hands.claim()
        await hands.settle(*((work, answered()) for work in list(hands.running)))
    assert await world.value("select bool_and(phase = 'sealed') from batch_jobs")
