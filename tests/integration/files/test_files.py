"""Files: in byte for byte and out again, whole or in part; limits that hold when several come at once."""

from __future__ import annotations

import asyncio
import hashlib
import random
import re

import pytest
from tests.domain import World
from tests.gateway import until

from ebbtide.accounts.roles import Role
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.errors import EbbtideError, Forbidden, InvalidRequest, LimitReached, NotFound, TooLarge
from ebbtide.files import store
from ebbtide.files.chunks import CHUNK_BYTES
from ebbtide.files.download import read_chunk, read_content, stream_chunks
from ebbtide.files.leases import reading
from ebbtide.files.library import delete_file, get_file, list_files
from ebbtide.files.model import FileQuery
from ebbtide.files.retention import purge_files
from ebbtide.files.upload import Upload, check_may_upload
from ebbtide.storage.queries import load_queries

MIB = 1 << 20


def some_bytes(size: int, line: int = 200) -> bytes:
    rng = random.Random(size)
    body = bytearray(rng.randbytes(size))
    body[::line] = b"\n" * len(body[::line])
    return bytes(body)


CONTENTS = {
    "one byte": b"x",
    "no newline at all": b"x" * (CHUNK_BYTES * 2 + 17),
    "only newlines": b"\n" * 5_000,
    "odd bytes": bytes(range(256)) * 300,
    "many chunks": some_bytes(4 * MIB + 123),
    "exactly a chunk": b"y" * (CHUNK_BYTES - 1) + b"\n",
    "crlf and bom": b"\xef\xbb\xbf" + b"a\r\nb\r\n" * 1_000,
}


@pytest.mark.parametrize("name", CONTENTS)
async def test_a_file_comes_back_byte_for_byte(world: World, name: str) -> None:
    content = CONTENTS[name]
    file = await world.upload(content)
    assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).digest())
    assert await world.content(file.id) == content
    assert await get_file(world.database, world.owner, file.id, world.clock.now()) == file
    chunks = await world.fetch("select * from batch_file_chunks where file_id = $1 order by chunk", file.id)
    assert [row["chunk"] for row in chunks] == list(range(len(chunks)))
    assert sum(row["raw_length"] for row in chunks) == len(content)
    begins = [sum(row["raw_length"] for row in chunks[:n]) for n in range(len(chunks))]
    assert [row["raw_offset"] for row in chunks] == begins


async def test_any_range_of_a_file(world: World) -> None:
    content = some_bytes(3 * MIB + 7)
    file = await world.upload(content)
    cuts = await world.fetch("select raw_offset from batch_file_chunks where file_id = $1", file.id)
    edges = [edge + step for row in cuts for edge in (row["raw_offset"],) for step in (-1, 0, 1) if edge + step >= 0]
    rng = random.Random(3)
    ranges = [(a, b) for a in edges for b in (a + 1, a + MIB, len(content))] + [
        tuple(sorted(rng.sample(range(len(content)), 2))) for _ in range(10)
    ]
    for start, stop in ranges:
        got = b"".join([piece async for piece in read_content(world.database, file, start, stop)])
        assert got == content[start:stop], (start, stop)
    for start, stop in ((0, len(content) + 99), (len(content), len(content)), (5, 5)):
        got = b"".join([piece async for piece in read_content(world.database, file, start, stop)])
        assert got == content[start:stop]


async def test_chunks_come_in_order_from_the_one_that_holds_the_start(world: World) -> None:
    content = b"".join(b"%d %s\n" % (n, b"x" * 99_000) for n in range(60))
    file = await world.upload(content)
    chunks = [chunk async for chunk in stream_chunks(world.database, file.id)]
    assert len(chunks) > 4  # more than one query
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert b"".join(chunk.data for chunk in chunks) == content
    middle = chunks[3].raw_offset
    for start in (middle, middle + 1, middle + len(chunks[3].data) - 1):
        assert [chunk async for chunk in stream_chunks(world.database, file.id, start)] == chunks[3:]
    assert [chunk async for chunk in stream_chunks(world.database, file.id, len(content))] == []
    assert [chunk async for chunk in stream_chunks(world.database, "file-nothing")] == []


async def test_bytes_that_are_gone_are_not_found(world: World) -> None:
    file = await world.upload(b"abc\n")
    await world.value("delete from batch_file_chunks returning 1")
    with pytest.raises(NotFound):
        await anext(read_content(world.database, file))
    with pytest.raises(NotFound):
        await read_chunk(world.database, file.id, 0)


async def test_an_upload_over_the_limit_is_refused_as_it_comes(world: World) -> None:
    with Upload(10) as upload:
        upload.write(b"x" * 10)
        with pytest.raises(TooLarge):
            upload.write(b"x")
        assert upload.size == 10
    with pytest.raises(InvalidRequest) as told:
        await world.upload(b"")
    assert told.value.code == "empty_file"
    assert await world.value("select count(*) from batch_files") == 0


async def test_the_store_of_an_account_holds_under_concurrency_and_is_freed_at_once(world: World) -> None:
    world.set(batch_files_max_total_mb_per_user=1)
    part = b"x" * (MIB // 3)
    results = await asyncio.gather(*(world.upload(part) for _ in range(6)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, EbbtideError)]
    kept = [result for result in results if not isinstance(result, BaseException)]
    assert (len(kept), len(refused)) == (3, 3)
    assert {(type(error), error.code) for error in refused} == {(TooLarge, "file_storage_limit")}
    other = await world.account("other")
    await world.upload(part, owner=other)
    await delete_file(world.database, world.owner, kept[0].id, world.clock.now())
    await world.upload(part)


async def test_the_hourly_count_includes_what_was_deleted_and_removed(world: World) -> None:
    world.set(batch_file_uploads_per_hour=2)
    settings = world.settings.current
    for _ in range(2):
        await check_may_upload(world.database, world.owner, settings, world.clock.now())
        file = await world.upload(b"x\n")
        await delete_file(world.database, world.owner, file.id, world.clock.now())
    world.clock.move(minutes=5)
    while await purge_files(world.database, world.clock.now()):
        pass
    assert await world.value("select count(*) from batch_file_chunks") == 0
    with pytest.raises(LimitReached):
        await check_may_upload(world.database, world.owner, settings, world.clock.now())
    world.clock.move(minutes=55, seconds=1)
    await check_may_upload(world.database, world.owner, settings, world.clock.now())
    assert await purge_files(world.database, world.clock.now()) > 0
    assert await world.value("select count(*) from batch_files") == 0


async def test_the_hourly_count_reads_only_what_may_be_in_it(world: World) -> None:
    async with world.database.transaction() as conn:
        await conn.execute(
            """insert into batch_files (id, account_id, purpose, state, filename, sha256, created_at, deleted_at)
               select 'file-' || n, 'acct_' || n % 100, 'batch', 'stored', 'x', sha256('x'), $1::timestamptz,
                   case when n % 3 > 0 then $1::timestamptz end from generate_series(1, 30000) n""",
            world.clock.now(),
        )
        await conn.execute("analyze batch_files")
        sql = "explain (format json) " + load_queries("ebbtide.files", "store.sql")["count_uploads"]
        plan = await conn.fetchval(sql, world.owner.account_id, world.clock.now())
    assert "Seq Scan" not in plan
    assert {"batch_files_account", "batch_files_deleted"} <= set(re.findall('"Index Name": "([a-z_]+)"', plan))


async def test_a_role_below_the_minimum_may_not_upload(world: World) -> None:
    low = await world.account("low", Role.PRO)
    with pytest.raises(Forbidden):
        await check_may_upload(world.database, low, world.settings.current, world.clock.now())


async def test_files_are_listed_in_exact_pages_either_way(world: World) -> None:
    names = [(await world.upload(f"{n}\n".encode())).id for n in range(6)]
    await world.upload(b"x\n", owner=await world.account("other"))
    await world.many(1)  # its lines are nobody's file

    async def page(**query: object) -> tuple[list[str], bool]:
        found = await list_files(world.database, world.owner, FileQuery(**query), world.clock.now())  # type: ignore[arg-type]  # by name
        return [file.id for file in found.items], found.has_more

    assert await page() == (names[::-1], False)
    assert await page(newest_first=False) == (names, False)
    assert await page(limit=3) == (names[:2:-1], True)
    assert await page(limit=3, after=names[3]) == (names[2::-1], False)
    assert await page(limit=3, after=names[2], newest_first=False) == (names[3:], False)
    assert await page(purpose="batch_output") == ([], False)
    await delete_file(world.database, world.owner, names[3], world.clock.now())
    assert await page(limit=3, after=names[3]) == (names[2::-1], False)
    with pytest.raises(InvalidRequest):
        await page(after="file-nothing")


async def test_a_reader_that_is_cut_off_still_ends_its_lease(world: World) -> None:
    file, begun = await world.upload(b"x"), asyncio.Event()

    async def read() -> None:
        async with reading(world.database, seconds=3_600.0, file_id=file.id):
            begun.set()
            await asyncio.Event().wait()

    async def no_lease() -> bool:
        return bool(await world.value("select count(*) from batch_read_leases") == 0)

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)  # it is ending its lease now, and is cut off in that
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(no_lease)


async def test_nobody_elses_file_can_be_seen_or_deleted(world: World) -> None:
    file = await world.upload(b"x\n")
    stranger, admin = await world.account("stranger"), await world.account("root", Role.ADMIN)
    now = world.clock.now()
    for somebody in (stranger, admin):
        for act in (get_file, delete_file):
            with pytest.raises(NotFound):
                await act(world.database, somebody, file.id, now)
    await delete_file(world.database, world.owner, file.id, now)
    with pytest.raises(NotFound):
        await delete_file(world.database, world.owner, file.id, now)


async def test_a_direct_batchs_lines_are_no_file(world: World) -> None:
    job = await world.many(1)
    with pytest.raises(NotFound):
        await get_file(world.database, world.owner, job.input_id, world.clock.now())


async def test_a_file_is_gone_when_its_time_is_over(world: World) -> None:
    world.set(batch_file_retention_days=2)
    file = await world.upload(b"x\n")
    world.clock.move(days=2)
    with pytest.raises(NotFound):
        await get_file(world.database, world.owner, file.id, world.clock.now())
    assert (await list_files(world.database, world.owner, FileQuery(), world.clock.now())).items == []


async def test_a_batchs_own_copy_is_not_listed_weighs_and_goes_with_its_source(world: World) -> None:
    source = await world.upload(b"source\n")
    await world.move(days=1)
    copy = await world.upload(b"copy\n", source_id=source.id)
    assert copy.expires_at == source.expires_at
    assert await world.content(copy.id) == b"copy\n"
    listed = await list_files(world.database, world.owner, FileQuery(), world.clock.now())
    assert [file.id for file in listed.items] == [source.id]
    async with world.database.connection() as conn:
        assert await store.stored_bytes(conn, world.owner.account_id) == source.size + copy.size
    job = await world.from_file(copy)
    other = await world.account("other")
    for wrong, owner in ((copy.id, None), ("file-" + "0" * 32, None), (source.id, other)):
        with pytest.raises(InvalidRequest, match="source_file_id"):
            await world.upload(b"x\n", source_id=wrong, owner=owner)
    await delete_file(world.database, world.owner, source.id, world.clock.now())
    with pytest.raises(NotFound):
        await get_file(world.database, world.owner, copy.id, world.clock.now())
    with pytest.raises(InvalidRequest, match="source_file_id"):
        await world.upload(b"x\n", source_id=source.id)
    await world.move(hours=2)
    await purge_files(world.database, world.clock.now())
    chunks = await world.fetch("select from batch_file_chunks where file_id = $1", copy.id)
    assert len(chunks) == 1, "the batch that was made of it goes on"
    assert job.input_file_id == copy.id


async def test_a_batchs_own_copy_goes_with_the_batch_and_its_source_stays(world: World) -> None:
    source = await world.upload(b"source\n")
    copy = await world.upload(b"copy\n", source_id=source.id)
    for file in (source, copy):
        job = await world.from_file(file)
        await cancel_batch(world.database, world.owner, job.id, world.clock.now())
        await delete_batch(world.database, world.owner, job.id, world.clock.now())
    assert (await get_file(world.database, world.owner, source.id, world.clock.now())).id == source.id
    with pytest.raises(NotFound):
        await get_file(world.database, world.owner, copy.id, world.clock.now())
