"""What remains of batches that have ended, for how long, and how it is removed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.domain import World, jsonl, request

from ebbtide.batches import closing
from ebbtide.batches.cancel import delete_batch
from ebbtide.batches.model import Job
from ebbtide.delivery.export import export_results
from ebbtide.errors import NotFound
from ebbtide.files import retention
from ebbtide.files.download import download_file
from ebbtide.files.leases import reading
from ebbtide.files.library import delete_file, get_file

TABLES = ("batch_jobs", "batch_items", "batch_attempts", "batch_result_segments", "batch_queues", "batch_slots")


async def delete(world: World, job: Job) -> None:
    await delete_batch(world.database, world.owner, job.id, world.clock.now())


async def counts(world: World, *tables: str) -> dict[str, int]:
    return {table: await world.value(f"select count(*) from {table}") for table in tables}


async def purge(world: World) -> int:
    """Do what the removal duty does until nothing is left of it; how many rounds that took."""
    rounds = 0
    now = world.clock.now()
    while sum(
        [
            await closing.purge_batches(world.database, now),
            await retention.expire_files(world.database, now),
            await retention.purge_files(world.database, now),
        ]
    ):
        rounds += 1
        assert rounds < 100
    return rounds


async def finished(world: World, job: Job) -> Job:
    async with world.worker():
        return await world.until_ended(job)


async def test_results_are_kept_for_the_retention_the_batch_was_created_with(world: World) -> None:
    world.set(batch_retention_days=3)
    job = await world.validated(jsonl([request("a")]))
    world.set(batch_retention_days=30)
    ended = await finished(world, job)
    assert ended.results_expires_at == ended.sealed_at + timedelta(days=3) if ended.sealed_at else False
    file = await get_file(world.database, world.owner, ended.output_id or "", world.clock.now())
    assert file.expires_at == ended.results_expires_at

    world.clock.move(days=3, seconds=-1)
    assert await closing.retire_batches(world.database, world.clock.now()) == 0
    world.clock.move(seconds=1)
    assert await closing.retire_batches(world.database, world.clock.now()) == 1
    with pytest.raises(NotFound):
        await world.job(job)
    with pytest.raises(NotFound):
        await get_file(world.database, world.owner, file.id, world.clock.now())


async def test_removal_frees_every_table_in_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "STEP_ITEMS", 7)
    direct = await finished(world, await world.many(20))
    file = await finished(world, await world.validated(jsonl([request(f"f{n}") for n in range(20)])))
    kept = await finished(world, await world.many(3))
    world.clock.move(days=1)
    for job in (direct, file):
        await delete(world, job)
    # Nothing goes while somebody who found it may still be about to read.
    assert await purge(world) == 0
    world.clock.move(seconds=retention.HIDDEN_FOR.total_seconds())
    await purge(world)
    assert await counts(world, *TABLES[:5]) == {
        "batch_jobs": 1,
        "batch_items": 3,
        "batch_attempts": 3,
        "batch_result_segments": await world.value(
            "select count(*) from batch_result_segments where batch_no = $1", kept.no
        ),
        "batch_queues": 0,
    }
    # Of the files only the upload is left, and the lines of the batch that was kept.
    files = await world.fetch("select id, purpose from batch_files order by purpose")
    assert [(row["id"], row["purpose"]) for row in files] == [
        (file.input_id, "batch"),
        (kept.input_id, "batch_direct"),
    ]
    orphans = "select count(*) from batch_file_chunks where file_id not in (select id from batch_files)"
    assert await world.value(orphans) == 0


async def chunks_of(world: World, file_id: str) -> int:
    count: int = await world.value("select count(*) from batch_file_chunks where file_id = $1", file_id)
    return count


async def test_input_bytes_go_only_when_neither_file_nor_batch_needs_them(world: World) -> None:
    file = await world.upload(jsonl([request("a")]))
    first, second = await world.from_file(file), await world.from_file(file)
    await delete_file(world.database, world.owner, file.id, world.clock.now())
    world.clock.move(hours=2)
    await purge(world)
    assert await chunks_of(world, file.id) == 1
    async with world.worker():
        assert (await world.until_ended(first)).completed == 1
        assert (await world.until_ended(second)).completed == 1
    await delete(world, first)
    world.clock.move(hours=2)
    await purge(world)
    assert await chunks_of(world, file.id) == 1
    await delete(world, second)
    world.clock.move(hours=2)
    await purge(world)
    assert await counts(world, "batch_jobs", "batch_files", "batch_file_chunks") == dict.fromkeys(
        ("batch_jobs", "batch_files", "batch_file_chunks"), 0
    )


async def test_a_batch_that_is_gone_leaves_the_uploaded_file(world: World) -> None:
    job = await world.validated(jsonl([request("a")]))
    await delete(world, job)
    world.clock.move(hours=2)
    await purge(world)
    assert await world.content(job.input_id) == jsonl([request("a")])
    # Until its own time is over.
    world.clock.move(days=30)
    await purge(world)
    world.clock.move(hours=2)
    await purge(world)
    assert await counts(world, "batch_files", "batch_file_chunks") == {"batch_files": 0, "batch_file_chunks": 0}


async def test_deletion_in_the_middle_of_a_download_completes_it(world: World) -> None:
    text = "x" * 60_000
    content = jsonl([request(f"r{n}", text) for n in range(60)])
    job = await finished(world, await world.validated(content))
    output, upload = [
        await get_file(world.database, world.owner, file_id or "", world.clock.now())
        for file_id in (job.output_id, job.input_id)
    ]
    whole = await world.content(output.id)
    downloads = [
        export_results(world.database, job, 60.0),
        download_file(world.database, output, (0, output.size), 60.0),
        download_file(world.database, upload, (0, upload.size), 60.0),
    ]
    begun = [await anext(download) for download in downloads]
    await delete(world, job)
    await delete_file(world.database, world.owner, upload.id, world.clock.now())
    world.clock.move(hours=2)
    assert await purge(world) == 0
    rest = [b"".join([piece async for piece in download]) for download in downloads]
    assert [first + more for first, more in zip(begun, rest, strict=True)] == [whole, whole, content]
    # With the readers gone, so are the bytes.
    await purge(world)
    assert await counts(world, "batch_jobs", "batch_files", "batch_result_segments") == dict.fromkeys(
        ("batch_jobs", "batch_files", "batch_result_segments"), 0
    )


async def test_a_reader_that_died_protects_only_until_its_time_is_over(world: World) -> None:
    file = await world.upload(jsonl([request("a")]))
    async with reading(world.database, seconds=600.0, file_id=file.id):
        await delete_file(world.database, world.owner, file.id, world.clock.now())
        world.clock.move(hours=2)
        assert await purge(world) == 0
        await world.value("update batch_read_leases set expires_at = now() returning 1")
        assert await purge(world) > 0
    assert await counts(world, "batch_files") == {"batch_files": 0}
