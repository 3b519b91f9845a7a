"""BATCH_MAX_RESULTS_MB_PER_BATCH: exact whoever records the answers; what does not fit fails, and the rest unrun."""

from __future__ import annotations

import pytest
from tests.domain import World, embedding, jsonl, request
from tests.fake_upstream import Behaviour

from ebbtide.batches.model import Job

MIB = 1 << 20
TOO_LARGE = "result_too_large"


async def stored(world: World, job: Job) -> int:
    """Bytes of answers that are there, counted one by one."""
    counted = "select coalesce(sum(answer_length), 0) from batch_items where batch_no = $1 and state = 'completed'"
    return int(await world.value(counted, job.no))


async def failures(world: World, job: Job) -> dict[str | None, int]:
    rows = await world.fetch(
        "select error_code, count(*) as n from batch_items where batch_no = $1 and state = 'failed' group by 1", job.no
    )
    return {row["error_code"]: row["n"] for row in rows}


@pytest.mark.parametrize("workers", [1, 2])
async def test_it_is_never_exceeded_and_the_rest_fails_without_running(world: World, workers: int) -> None:
    """Answers of 100 kB and a limit of 1 MiB: ten fit, however many processes record them."""
    world.set(batch_max_results_mb_per_batch=1, batch_model_concurrency=6)
    world.upstream.decide = lambda _: Behaviour("huge", size=100_000, latency=0.1)
    job = await world.many(200)
    async with world.worker():
        if workers == 2:
            async with world.worker():
                ended = await world.until_ended(job)
        else:
            ended = await world.until_ended(job)
    assert ended.status == "completed"
    assert (ended.completed, ended.failed) == (10, 190)
    assert await stored(world, job) <= MIB
    assert await stored(world, job) + 100_000 > MIB
    assert await world.value("select result_bytes from batch_jobs where no = $1", job.no) == await stored(world, job)
    assert await failures(world, job) == {TOO_LARGE: 190}
    # What ran beyond the limit was in flight when it was reached; the others never got to the upstream.
    attempts = await world.attempts(job)
    assert len(attempts) == world.upstream.count <= 10 + 3 * 6
    assert await not_run(world, job) == 200 - len(attempts)


async def not_run(world: World, job: Job) -> int:
    counted = "select count(*) from batch_items where batch_no = $1 and attempts = 0"
    return int(await world.value(counted, job.no))


async def test_an_answer_that_does_not_fit_keeps_its_known_cost(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=1, batch_model_concurrency=1)
    sizes = iter([900_000, 200_000])
    world.upstream.decide = lambda _: Behaviour("huge", size=next(sizes))
    job = await world.many(2)
    async with world.worker():
        ended = await world.until_ended(job)
    fits, does_not = await world.attempts(job)
    assert (fits["outcome"], does_not["outcome"], does_not["error_code"]) == ("completed", "failed", TOO_LARGE)
    assert does_not["cost_usd"] == fits["cost_usd"] > 0
    assert (ended.cost_usd, ended.cost_unknown_attempts) == (fits["cost_usd"] * 2, 0)
    assert await failures(world, job) == {TOO_LARGE: 1}


async def test_other_batches_have_their_own(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=1)
    world.upstream.decide = lambda received: Behaviour("huge", size=300_000) if received.text == "big" else None
    full = await world.direct(*(request(f"r{n}", "big") for n in range(8)))
    other = await world.many(8)
    async with world.worker():
        assert (await world.until_ended(full)).completed == 3
        assert (await world.until_ended(other)).completed == 8


async def test_a_raised_limit_is_for_batches_that_are_not_full_yet(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=2, batch_model_concurrency=2)
    world.upstream.decide = lambda _: Behaviour("huge", size=300_000)
    job = await world.many(6)
    async with world.worker():
        assert (await world.until_ended(job)).completed == 6


async def test_zero_is_no_limit(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=0)
    world.upstream.decide = lambda _: Behaviour("huge", size=300_000)
    job = await world.many(8)
    async with world.worker():
        assert (await world.until_ended(job)).completed == 8


async def test_a_file_batch_that_is_full_still_gets_both_its_files(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=1, batch_model_concurrency=1)
    world.upstream.decide = lambda _: Behaviour("huge", size=400_000)
    job = await world.validated(jsonl([request(f"r{n}") for n in range(6)]))
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.completed, ended.failed) == ("completed", 2, 4)
    errors = (await world.content(ended.error_id)).splitlines()
    assert len(errors) == 4
    assert all(TOO_LARGE.encode() in line for line in errors)
    assert len((await world.content(ended.output_id)).splitlines()) == 2


async def test_a_retry_that_waits_fails_too_with_the_error_it_got(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=1, batch_model_concurrency=1)
    world.upstream.script.extend([Behaviour(status=503), Behaviour("huge", size=MIB - 2_000)])
    world.upstream.script.extend([Behaviour("huge", size=3_000)] * 5)
    job = await world.many(5)
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.completed, ended.failed) == ("completed", 1, 4)
    assert await failures(world, job) == {"service_unavailable": 1, TOO_LARGE: 3}


async def test_embeddings_count_as_they_are_stored(world: World) -> None:
    world.set(batch_max_results_mb_per_batch=1)
    job = await world.direct(*(embedding(f"e{n}") for n in range(5)))
    async with world.worker():
        ended = await world.until_ended(job)
    assert ended.completed == 5
    assert await world.value("select result_bytes from batch_jobs where no = $1", job.no) == await stored(world, job)
