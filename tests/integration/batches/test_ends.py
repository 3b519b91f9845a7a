"""How batches end: cancelled in each phase, out of time, failed, deleted."""

from __future__ import annotations

import pytest
from tests.domain import Hands, World, answered, books, failed, jsonl, request

from ebbtide.accounts.roles import Role
from ebbtide.batches import closing
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.model import Job, timestamps
from ebbtide.batches.progress import list_batches
from ebbtide.errors import Conflict, NotFound
from ebbtide.files.library import get_file


async def cancel(world: World, job: Job) -> Job:
    return await cancel_batch(world.database, world.owner, job.id, world.clock.now())


async def delete(world: World, job: Job) -> None:
    await delete_batch(world.database, world.owner, job.id, world.clock.now())


async def expire(world: World) -> int:
    return await closing.expire_batches(world.database, world.clock.now())


async def started(world: World, job: Job, slots: int = 2) -> Hands:
    """Hands that hold `slots` running items of the batch and some prefetched ones."""
    world.set(batch_model_concurrency=slots)
    hands = await world.hands()
    assert len(await hands.claim()) == slots
    return hands


# Cancel


async def test_cancel_before_anything_started(world: World) -> None:
    job = await world.many(3)
    world.clock.move(minutes=1)
    assert (await cancel(world, job)).status == "cancelling"
    world.clock.move(minutes=1)
    await world.close()
    ended = await world.job(job)
    assert (ended.status, ended.cancelled, ended.failed, ended.completed) == ("cancelled", 3, 0, 0)
    times = timestamps(ended)
    assert (times["cancelling_at"] or 0) - (times["created_at"] or 0) == 60
    assert (times["cancelled_at"] or 0) - (times["created_at"] or 0) == 120
    assert (times["completed_at"], times["failed_at"], times["expired_at"]) == (None, None, None)
    assert (times["results_expires_at"] or 0) - (times["cancelled_at"] or 0) == 7 * 86_400
    assert await books(world.database) == {}


async def test_cancel_while_running_stops_starts_at_once_and_keeps_results(world: World) -> None:
    job = await world.many(10)
    hands = await started(world, job)
    assert (await world.job(job)).status == "in_progress"
    assert (await cancel(world, job)).status == "cancelling"
    assert await (await world.hands()).claim() == []
    await world.close()
    now = await world.job(job)
    assert now.status == "cancelling"
    first, second = hands.running
    await hands.hand_back_waiting()
    await hands.settle((first, answered()))
    await world.close()
    assert (await world.job(job)).status == "cancelling"
    # One that would be tried again is not.
    await hands.settle((second, failed(503)))
    await world.close()
    ended = await world.job(job)
    assert (ended.status, ended.completed, ended.cancelled, ended.failed) == ("cancelled", 1, 9, 0)
    (last,) = [i for i in await world.items(job) if i["id"] == second.item.id]
    assert (last["state"], last["error_code"]) == ("cancelled", None)
    assert await books(world.database) == {}


async def test_cancel_with_everything_running_ends_with_the_last_settle(world: World) -> None:
    job = await world.many(2)
    hands = await started(world, job)
    await cancel(world, job)
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    ended = await world.job(job)
    assert (ended.status, ended.completed, ended.cancelled) == ("cancelled", 2, 0)


@pytest.mark.parametrize("phase", ["sealing", "completed", "failed", "cancelled", "expired"])
async def test_cancel_of_what_is_past_stopping_changes_nothing(world: World, phase: str) -> None:
    if phase == "failed":
        job = await world.validated(b"{")
    elif phase == "cancelled":
        job = await world.many(1)
        await cancel(world, job)
        await world.close()
    elif phase == "expired":
        job = await world.many(1)
        world.clock.move(days=1)
        await expire(world)
        await world.close()
    else:
        job = await world.validated(jsonl([request("a")]))
        hands = await started(world, job, slots=1)
        await hands.settle((hands.running[0], answered()))
        if phase == "completed":
            await world.seal()
    before = await world.job(job)
    assert before.status == {"sealing": "finalizing"}.get(phase, phase)
    world.clock.move(minutes=5)
    assert await cancel(world, job) == before
    if phase == "sealing":
        await world.seal()
        assert (await world.job(job)).status == "completed"


async def test_cancel_twice_keeps_the_first_time(world: World) -> None:
    job = await world.many(1)
    first = await cancel(world, job)
    world.clock.move(minutes=5)
    assert await cancel(world, job) == first


async def test_a_cancelled_file_batch_still_gets_its_files(world: World) -> None:
    job = await world.validated(jsonl([request(f"r{n}") for n in range(5)]))
    hands = await started(world, job, slots=1)
    await cancel(world, job)
    await hands.hand_back_waiting()
    await hands.settle((hands.running[0], answered()))
    await world.close()
    assert (await world.job(job)).status == "cancelling"
    await world.seal()
    ended = await world.job(job)
    assert ended.status == "cancelled"
    assert (await world.content(ended.output_id)).count(b"\n") == 1
    assert (await world.content(ended.error_id)).count(b'"batch_cancelled"') == 4


async def test_closing_goes_in_bounded_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "STEP_ITEMS", 4)
    job = await world.many(10)
    await cancel(world, job)
    seen = []
    while await closing.close_batches(world.database, world.clock.now()):
        seen.append((await world.job(job)).cancelled)
        assert await books(world.database) == {}
    assert seen == [4, 8]
    assert (await world.job(job)).status == "cancelled"


async def test_a_closing_batch_never_stops_the_next_one(world: World) -> None:
    stuck, other = await world.many(4), await world.many(4)
    hands = await started(world, stuck, slots=1)
    await cancel(world, stuck)
    await cancel(world, other)
    await world.close()
    assert (await world.job(other)).status == "cancelled"
    assert (await world.job(stuck)).status == "cancelling"
    assert hands.running


async def test_a_batch_that_breaks_its_closing_holds_up_no_other(world: World) -> None:
    broken, other = await world.many(3), await world.many(3)
    await world.value("update batch_jobs set total = 1 where no = $1 returning no", broken.no)
    for job in (broken, other):
        await cancel(world, job)
    await world.close()
    assert (await world.job(other)).status == "cancelled"
    assert (await world.job(broken)).status == "cancelling"
    await world.value("update batch_jobs set total = 3 where no = $1 returning no", broken.no)
    await world.close()
    assert (await world.job(broken)).status == "cancelled"
    assert await books(world.database) == {}


# Out of time


async def test_the_window_closes(world: World) -> None:
    """Unstarted requests expire, tried ones fail with their last error, running ones finish."""
    job = await world.many(6)
    hands = await started(world, job)
    tried, running = hands.running
    await hands.hand_back_waiting()
    await hands.settle((tried, failed(503, retry_after=3_600)))
    assert len(hands.running) == 1
    world.clock.move(hours=24)
    assert await expire(world) == 1
    assert await expire(world) == 0
    assert await hands.claim() == []
    await world.close()
    assert (await world.job(job)).status == "in_progress"
    world.clock.move(minutes=2)
    await hands.settle((running, answered()))
    ended = await world.job(job)
    assert (ended.status, ended.completed, ended.failed, ended.expired) == ("expired", 1, 1, 4)
    times = timestamps(ended)
    assert (times["expired_at"] or 0) - (times["expires_at"] or 0) == 120
    assert times["completed_at"] is None
    items = {item["id"]: item for item in await world.items(job)}
    assert (items[tried.item.id]["state"], items[tried.item.id]["error_code"]) == ("failed", "upstream_error")
    assert items[running.item.id]["state"] == "completed"
    assert await books(world.database) == {}


async def test_nothing_unstarted_when_the_window_closes_is_completed(world: World) -> None:
    job = await world.many(2)
    hands = await started(world, job)
    world.clock.move(hours=25)
    await expire(world)
    await world.close()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    ended = await world.job(job)
    assert (ended.status, ended.completed, ended.expired) == ("completed", 2, 0)
    assert timestamps(ended)["completed_at"] is not None
    assert timestamps(ended)["expired_at"] is None


async def test_a_failure_after_the_window_is_final(world: World) -> None:
    job = await world.many(1)
    hands = await started(world, job, slots=1)
    world.clock.move(hours=25)
    await hands.settle((hands.running[0], failed(503)))
    assert (await world.job(job)).failed == 1


async def test_a_file_read_after_its_window_expires(world: World) -> None:
    job = await world.from_file(jsonl([request("a")]))
    world.clock.move(hours=25)
    assert await expire(world) == 0
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.expired, ended.error_id is not None) == ("expired", 1, True)
    assert world.upstream.count == 0


async def test_a_batch_without_a_window_never_expires(world: World) -> None:
    world.set(batch_completion_window_hours=0)
    job = await world.many(1)
    world.clock.move(days=4_000)
    assert await expire(world) == 0
    assert (await world.job(job)).status == "validating"


# Delete


async def test_delete_waits_for_live_leases_only(world: World) -> None:
    job = await world.many(5)
    hands = await started(world, job)
    with pytest.raises(Conflict):
        await delete(world, job)
    await world.lapse(hands.worker_no)
    await delete(world, job)
    with pytest.raises(NotFound):
        await world.job(job)
    # The late outcomes and the take-over of a deleted batch disturb nobody.
    await hands.settle((hands.running[0], answered()))
    await world.take_over()
    assert await (await world.hands()).claim() == []
    assert await books(world.database) == {}


@pytest.mark.parametrize("phase", ["validating", "waiting", "cancelling", "sealing", "ended"])
async def test_a_deleted_batch_is_gone_everywhere_at_once(world: World, phase: str) -> None:
    if phase in ("validating", "sealing", "ended"):
        content = jsonl([request("a")])
        job = await (world.from_file(content) if phase == "validating" else world.validated(content))
    else:
        job = await world.many(3)
    if phase == "cancelling":
        await cancel(world, job)
    if phase in ("sealing", "ended"):
        hands = await started(world, job, slots=1)
        await hands.settle((hands.running[0], answered()))
        await world.lapse(hands.worker_no)
    if phase == "ended":
        await world.seal()
    ended = await world.job(job)
    await delete(world, job)
    for again in (world.job(job), cancel(world, job), delete(world, job)):
        with pytest.raises(NotFound):
            await again
    assert (await list_batches(world.database, world.owner, None, 10)).items == []
    if ended.output_id:
        with pytest.raises(NotFound):
            await get_file(world.database, world.owner, ended.output_id, world.clock.now())
    async with world.worker():
        other = await world.many(2)
        await world.until_ended(other)
    assert world.upstream.count == 2
    # It no longer takes up a place.
    world.set(batch_max_active_per_user=1)
    await world.many(1)


async def test_another_account_may_not_and_an_administrator_may(world: World) -> None:
    job = await world.many(2)
    stranger, admin = await world.account("stranger"), await world.account("root", Role.ADMIN)
    now = world.clock.now()
    with pytest.raises(NotFound):
        await cancel_batch(world.database, stranger, job.id, now)
    with pytest.raises(NotFound):
        await delete_batch(world.database, stranger, job.id, now)
    assert (await cancel_batch(world.database, admin, job.id, now)).status == "cancelling"
    await delete_batch(world.database, admin, job.id, now)
