"""Freezing results into files: once, whole, the same bytes each time, whoever does it and whatever breaks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.domain import World, answered, books, failed, jsonl, request
from tests.logs import told
from zstandard import ZstdError

from ebbtide.batches import end_store
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.intake import create_batch
from ebbtide.batches.model import Job, timestamps
from ebbtide.batches.progress import read_batch
from ebbtide.batches.results import Result, stream_results
from ebbtide.batches.validation import validate_next
from ebbtide.clock import Clock
from ebbtide.delivery.export import export_results
from ebbtide.delivery.seal import ANY, ResultWriter, seal_next
from ebbtide.delivery.seal import write_results as write
from ebbtide.dialects.openai.requests import CreateBatch
from ebbtide.errors import Conflict, NotFound
from ebbtide.files import store as files
from ebbtide.files.library import delete_file, get_file
from ebbtide.storage.pool import Database


async def finished(world: World, count: int = 6, *, text: str = "Fine") -> Job:
    """A file batch whose items are all final and which waits to be sealed: every third one failed."""
    job = await world.validated(jsonl([request(f"r{n}") for n in range(count)]))
    world.set(batch_model_concurrency=1_000, batch_role_concurrency_internal=0)
    hands = await world.hands()
    await hands.claim()
    while hands.running:
        works = hands.running[:400]
        await hands.settle(
            *(
                (w, failed(400) if int(w.item.custom_id[1:]) % 3 == 2 else answered(f"{text} {w.item.id}"))
                for w in works
            )
        )
        await hands.claim()
    assert (await world.job(job)).status == "finalizing"
    return job


def lines(content: bytes) -> list[Any]:
    assert content.endswith(b"\n")
    return [msgspec.json.decode(line) for line in content[:-1].split(b"\n")]


async def seal_once(world: World) -> int:
    return await seal_next(world.database, await world.worker_no(), world.clock)


async def test_result_files_go_when_their_create_asked_for_it_and_never_after_their_batch(world: World) -> None:
    for seconds, kept in ((3_600, timedelta(seconds=3_600)), (2_592_000, timedelta(days=7))):
        file = await world.upload(jsonl([request("a")]))
        create = CreateBatch(None, file.id, "/v1/chat/completions", "24h", output_seconds=seconds)
        job = await create_batch(world.intake, world.owner, create)
        assert await validate_next(world.intake, await world.worker_no()) == 1
        hands = await world.hands()
        await hands.settle(*((work, answered()) for work in await hands.claim()))
        assert await seal_once(world) == 1
        ended, now = await world.job(job), world.clock.now()
        assert ended.results_expires_at == now + timedelta(days=7)
        output = await get_file(world.database, world.owner, ended.output_id or "", now)
        assert output.expires_at == now + kept
        with pytest.raises(NotFound):
            await get_file(world.database, world.owner, output.id, now + kept)


async def test_results_become_two_files_in_submission_order(world: World) -> None:
    job = await finished(world)
    world.clock.move(minutes=1)
    assert await seal_once(world) == 1
    assert await seal_once(world) == 0
    ended = await world.job(job)
    assert ended.status == "completed"
    times = timestamps(ended)
    assert (times["completed_at"] or 0) - (times["finalizing_at"] or 0) == 60
    output, errors = lines(await world.content(ended.output_id)), lines(await world.content(ended.error_id))
    assert [line["custom_id"] for line in output] == ["r0", "r1", "r3", "r4"]
    assert [line["custom_id"] for line in errors] == ["r2", "r5"]
    assert output[0]["response"]["status_code"] == 200
    assert output[0]["response"]["body"]["text"].startswith("Fine")
    assert output[0]["error"] is None
    assert errors[0]["response"]["status_code"] == 400
    assert errors[0]["response"]["body"]["error"]["message"] == "told 400"
    assert {line["id"] for line in output + errors} == {f"batch_req_{i['id']}" for i in await world.items(job)}
    for file_id in (ended.output_id, ended.error_id):
        file = await get_file(world.database, world.owner, file_id or "", world.clock.now())
        content = await world.content(file_id)
        assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).digest())
        assert (file.purpose, file.batch_id, file.expires_at) == ("batch_output", job.id, ended.results_expires_at)


@pytest.mark.parametrize("good", [True, False])
async def test_a_file_without_lines_does_not_come_to_be(world: World, good: bool) -> None:
    job = await world.validated(jsonl([request("a"), request("b")]))
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered() if good else failed(400)) for work in list(hands.running)))
    await world.seal()
    ended = await world.job(job)
    assert ended.status == "completed"
    assert (ended.output_id is not None, ended.error_id is not None) == (good, not good)
    assert await world.value("select count(*) from batch_files where purpose = 'batch_output'") == 1


class Broken(Exception):
    pass


def break_after(monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
    """Let sealing break once it has read so many slices of results."""
    real = stream_results

    async def stream(*args: Any) -> AsyncIterator[list[Result]]:
        left = slices
        async for results in real(*args):
            yield results
            left -= 1
            if left == 0:
                raise Broken
        raise Broken

    monkeypatch.setattr("ebbtide.delivery.seal.stream_results", stream)


@pytest.mark.parametrize("slices", [1, 3, 100])
async def test_a_crash_in_the_middle_leaves_nothing_and_the_next_gives_the_same_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    job = await finished(world, 1_500, text="x" * 3_000)
    crashed = await world.worker_no()
    with monkeypatch.context() as patch:
        break_after(patch, slices)
        with pytest.raises(Broken):
            await seal_next(world.database, crashed, world.clock)
    half = await world.job(job)
    assert (half.status, half.output_id, half.error_id) == ("finalizing", None, None)
    # Somebody else has to wait for the lease of the one that crashed, and no longer.
    other = await world.worker_no()
    assert await seal_next(world.database, other, world.clock) == 0
    await world.lapse(crashed)
    assert await seal_next(world.database, other, world.clock) == 1
    ended = await world.job(job)
    first = [await world.content(file_id) for file_id in (ended.output_id, ended.error_id)]
    assert [len(lines(content)) for content in first] == [1_000, 500]
    orphans = "select count(*) from batch_file_chunks where file_id not in (select id from batch_files)"
    assert await world.value(orphans) == 0
    assert await world.value("select count(*) from batch_files where state = 'writing'") == 0
    # The same bytes as the direct export, and once more the same.
    exported = b"".join([part async for part in export_results(world.database, ended, 60.0)])
    assert sorted(exported.splitlines()) == sorted(b"".join(first).splitlines())
    assert [await world.content(file_id) for file_id in (ended.output_id, ended.error_id)] == first


async def test_one_that_lost_its_lease_while_sealing_leaves_no_trace(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first goes on writing after the second has taken over; only the second's files come to be."""
    job = await finished(world, 1_500, text="x" * 3_000)
    slow = await world.worker_no()
    reached, go_on = asyncio.Event(), asyncio.Event()
    real = stream_results

    async def stream(*args: Any) -> AsyncIterator[list[Result]]:
        async for results in real(*args):
            yield results
            if not go_on.is_set():
                reached.set()
                await go_on.wait()

    with monkeypatch.context() as patch:
        patch.setattr("ebbtide.delivery.seal.stream_results", stream)
        task = asyncio.create_task(seal_next(world.database, slow, world.clock))
        await reached.wait()
    await world.lapse(slow)
    assert await seal_once(world) == 1
    before = await world.job(job)
    go_on.set()
    await task
    assert await world.job(job) == before
    assert len(lines(await world.content(before.output_id))) == 1_000
    assert await world.value("select count(*) from batch_files where purpose = 'batch_output'") == 2
    orphans = "select count(*) from batch_file_chunks where file_id not in (select id from batch_files)"
    assert await world.value(orphans) == 0


async def test_a_file_that_is_gone_at_the_last_moment_is_not_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await finished(world)

    async def write_in_vain(database: Database, *args: Any) -> None:
        await write(database, *args)
        async with database.transaction() as conn:
            await files.drop_unfinished(conn, job.id)

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr("ebbtide.delivery.seal.write_results", write_in_vain)
        assert await seal_once(world) == 1
    assert len(told(logs, "seal_superseded")) == 1
    half = await world.job(job)
    assert (half.status, half.output_id, half.error_id) == ("finalizing", None, None)
    await world.value("update workers set lease_until = now() returning 1")
    await seal_once(world)
    assert len(lines(await world.content((await world.job(job)).output_id))) == 4


@pytest.mark.parametrize("when", ["before", "while"])
async def test_a_batch_deleted_while_it_is_sealed_is_not_published(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    job = await finished(world)
    now = world.clock.now()
    if when == "before":
        await delete_batch(world.database, world.owner, job.id, now)
        assert await seal_once(world) == 0
        return
    real = stream_results

    async def stream(*args: Any) -> AsyncIterator[list[Result]]:
        async for results in real(*args):
            yield results
        await delete_batch(world.database, world.owner, job.id, now)

    monkeypatch.setattr("ebbtide.delivery.seal.stream_results", stream)
    await seal_once(world)
    with pytest.raises(NotFound):
        await world.job(job)
    assert (
        await world.value("select count(*) from batch_files where purpose = 'batch_output' and deleted_at is null") == 0
    )


async def test_a_seal_by_a_worker_that_does_not_own_it_is_refused(world: World) -> None:
    job = await finished(world)
    mine = await world.worker_no()
    async with world.database.transaction() as conn:
        assert await end_store.claim_sealing(conn, mine, ANY) == job.id
        again = await end_store.seal(conn, job.no, mine + 1, end_store.ResultFiles(None, None), world.clock.now())
        assert again is None
        assert (await read_batch(conn, job.id)).status == "finalizing"


async def test_a_deleted_output_file_is_not_written_again(world: World) -> None:
    job = await finished(world)
    await seal_once(world)
    ended = await world.job(job)
    assert ended.output_id
    await delete_file(world.database, world.owner, ended.output_id, world.clock.now())
    assert await seal_once(world) == 0
    assert (await world.job(job)).output_id == ended.output_id
    with pytest.raises(NotFound):
        await world.content(ended.output_id)


async def test_sealing_goes_on_while_batches_are_switched_off(world: World) -> None:
    job = await finished(world)
    world.set(batch_enabled=False)
    async with world.worker():
        assert (await world.until_ended(job)).status == "completed"


async def test_every_ending_gives_its_lines(world: World) -> None:
    """What never ran is told apart from what failed, and from why it never ran."""
    for closing, code in (("cancelled", "batch_cancelled"), ("expired", "batch_expired"), ("failed", "batch_failed")):
        job = await world.validated(jsonl([request("a")]))
        now = world.clock.now()
        if closing == "cancelled":
            await cancel_batch(world.database, world.owner, job.id, now)
        elif closing == "expired":
            close = "update batch_jobs set closing = 'expired', closing_at = $2 where no = $1 returning 1"
            await world.value(close, job.no, now)
        else:
            async with world.database.transaction() as conn:
                await end_store.fail_batch(conn, job.no, "owner_unauthorized", "gone", now)
        await world.close()
        await world.seal()
        ended = await world.job(job)
        assert (ended.status, ended.output_id) == (closing, None)
        (line,) = lines(await world.content(ended.error_id))
        assert line["response"] is None
        assert line["error"]["code"] == code
        assert line["custom_id"] == "a"
    assert await books(world.database) == {}


async def test_lines_are_safe_for_those_who_split_them_as_python_does(world: World) -> None:
    odd = 'a\u2028b\u2029c\x85d\ne"f'
    job = await world.validated(jsonl([request(odd)]))
    hands = await world.hands()
    await hands.claim()
    await hands.settle((hands.running[0], answered("plain")))
    await world.seal()
    content = await world.content((await world.job(job)).output_id)
    assert len(content.decode().splitlines()) == 1
    assert lines(content)[0]["custom_id"] == odd


async def test_an_export_of_what_has_not_ended_is_refused(world: World) -> None:
    job = await world.many(2)
    with pytest.raises(Conflict):
        await anext(export_results(world.database, job, 60.0))
    async with world.worker():
        ended = await world.until_ended(job)
    content = b"".join([part async for part in export_results(world.database, ended, 60.0)])
    assert [line["custom_id"] for line in lines(content)] == ["r0", "r1"]


async def test_a_batch_that_breaks_the_sealing_holds_up_no_other(world: World) -> None:
    broken = await finished(world)
    await world.value("update batch_result_segments set data = 'not zstd' where batch_no = $1 returning 1", broken.no)
    good = await finished(world)
    worker_no = await world.worker_no()
    with pytest.raises(ZstdError):
        await seal_next(world.database, worker_no, world.clock)
    assert await seal_next(world.database, worker_no, world.clock) == 1
    assert (await world.job(good)).status == "completed"
    assert (await world.job(broken)).status == "finalizing"


async def test_a_large_batch_keeps_no_small_one_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = await finished(world, 60), await finished(world, 3)
    size = await world.value("select result_bytes from batch_jobs where no = $1", small.no)
    monkeypatch.setattr("ebbtide.worker.upkeep.SMALL", (0, size))
    monkeypatch.setattr("ebbtide.worker.upkeep.LARGE", (size + 1, ANY[1]))
    go_on = asyncio.Event()

    async def held(database: Database, job: Job, writers: tuple[ResultWriter, ResultWriter], clock: Clock) -> None:
        if job.id == large.id:
            await go_on.wait()
        await write(database, job, writers, clock)

    monkeypatch.setattr("ebbtide.delivery.seal.write_results", held)
    async with world.worker():
        assert (await world.until_ended(small)).output_id is not None
        assert (await world.job(large)).status == "finalizing"
        go_on.set()
        assert (await world.until_ended(large)).output_id is not None
