"""Reading batches and their results: pages that end where they should and stay true while items finish."""

from __future__ import annotations

from typing import Any

import pytest
from tests.domain import World, answered, failed, jsonl, request

from ebbtide.accounts.roles import Role
from ebbtide.batches.cancel import delete_batch
from ebbtide.batches.model import Job
from ebbtide.batches.progress import get_batch, list_batches
from ebbtide.batches.results import PAGE_BYTES, Result, list_results
from ebbtide.errors import InvalidRequest, NotFound


async def finish(world: World, job: Job, answer: str = "Fine") -> None:
    world.set(batch_model_concurrency=1_000, batch_role_concurrency_internal=0)
    hands = await world.hands()
    await hands.claim()
    while hands.running:
        await hands.settle(*((work, answered(f"{answer} {work.item.custom_id}")) for work in hands.running[:100]))
        await hands.claim()
    await world.lapse(hands.worker_no)


async def pages(world: World, job: Job, limit: int) -> list[list[Result]]:
    """Every page, following the cursor."""
    found: list[list[Result]] = []
    after = None
    while True:
        page = await list_results(world.database, job, after, limit)
        found.append(page.items)
        if not page.has_more:
            return found
        after = page.items[-1].id


@pytest.mark.parametrize(("limit", "sizes"), [(1000, [10]), (10, [10]), (5, [5, 5]), (4, [4, 4, 2]), (9, [9, 1])])
async def test_pages_are_full_and_the_last_one_says_so(world: World, limit: int, sizes: list[int]) -> None:
    job = await world.many(10)
    await finish(world, job)
    found = await pages(world, job, limit)
    assert [len(page) for page in found] == sizes
    assert [result.custom_id for page in found for result in page] == [f"r{n}" for n in range(10)]


async def test_a_page_ends_at_eight_mebibytes_and_never_before_one_result(world: World) -> None:
    job = await world.many(12)
    await finish(world, job, answer="x" * (PAGE_BYTES // 4))
    found = await pages(world, job, 1000)
    assert [len(page) for page in found] == [3, 3, 3, 3]
    assert all(sum(len(result.answer or b"") for result in page) <= PAGE_BYTES for page in found)
    big = await world.many(2)
    await finish(world, big, answer="x" * (PAGE_BYTES + 1))
    assert [len(page) for page in await pages(world, big, 1000)] == [1, 1]


async def test_the_cursor_is_stable_while_items_finish(world: World) -> None:
    job = await world.many(9)
    first = await list_results(world.database, job, None, 4)
    assert [(r.state, r.answer) for r in first.items] == [("queued", None)] * 4
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered(work.item.custom_id)) for work in reversed(hands.running)))
    rest = await list_results(world.database, job, first.items[-1].id, 4)
    assert [(r.custom_id, r.state) for r in rest.items] == [(f"r{n}", "completed") for n in range(4, 8)]
    assert all(f'"{r.custom_id}"'.encode() in (r.answer or b"") for r in rest.items)
    assert rest.has_more
    last = await list_results(world.database, job, rest.items[-1].id, 4)
    assert ([r.custom_id for r in last.items], last.has_more) == (["r8"], False)


async def test_a_retried_request_keeps_its_last_error_while_it_waits(world: World) -> None:
    job = await world.many(2)
    hands = await world.hands()
    await hands.claim()
    await hands.settle((hands.running[0], failed(503)))
    page = await list_results(world.database, job, None, 10)
    told = [(r.state, r.error_code, r.error_status, r.answer) for r in page.items]
    assert told == [("queued", "upstream_error", 503, None), ("running", None, None, None)]


async def test_a_cursor_at_the_end_gives_nothing_and_one_of_another_batch_is_refused(world: World) -> None:
    first, second = await world.many(2), await world.many(2)
    last = (await world.items(second))[-1]["id"]
    assert (await list_results(world.database, second, last, 10)).items == []
    assert (await list_results(world.database, second, last, 10)).has_more is False
    for foreign in ((await world.items(first))[0]["id"], last + 1):
        with pytest.raises(InvalidRequest) as refused:
            await list_results(world.database, second, foreign, 10)
        assert refused.value.param == "after"


async def listed(world: World, limit: int, **more: Any) -> list[list[str]]:
    found: list[list[str]] = []
    after = None
    while True:
        page = await list_batches(world.database, more.get("owner", world.owner), after, limit)
        found.append([job.id for job in page.items])
        if not page.has_more:
            return found
        after = page.items[-1].id


async def test_batches_are_listed_newest_first_in_exact_pages(world: World) -> None:
    jobs = [await world.many(1) for _ in range(6)]
    await world.many(1, owner=await world.account("other"))
    ids = [job.id for job in reversed(jobs)]
    assert await listed(world, 3) == [ids[:3], ids[3:]]
    assert await listed(world, 100) == [ids]
    # A batch that was deleted is a good cursor still.
    await delete_batch(world.database, world.owner, ids[2], world.clock.now())
    page = await list_batches(world.database, world.owner, ids[2], 2)
    assert ([job.id for job in page.items], page.has_more) == (ids[3:5], True)


@pytest.mark.parametrize("after", ["batch_nothing", "", "x\u2028"])
async def test_a_cursor_that_is_no_batch_of_ones_own_is_refused(world: World, after: str) -> None:
    with pytest.raises(InvalidRequest):
        await list_batches(world.database, world.owner, after, 10)
    theirs = await world.many(1, owner=await world.account("other"))
    with pytest.raises(InvalidRequest):
        await list_batches(world.database, world.owner, theirs.id, 10)


async def test_who_may_read_a_batch(world: World) -> None:
    job = await world.validated(jsonl([request("a")]))
    stranger, admin = await world.account("stranger"), await world.account("root", Role.ADMIN)
    with pytest.raises(NotFound):
        await get_batch(world.database, stranger, job.id)
    assert (await get_batch(world.database, admin, job.id)).id == job.id
    assert (await list_batches(world.database, admin, None, 10)).items == []
    with pytest.raises(NotFound):
        await get_batch(world.database, world.owner, "batch_" + "0" * 32)
