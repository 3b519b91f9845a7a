"""Checking a file: bytes as people really send them, every problem by its line, and what may happen meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.domain import World, books, embedding, jsonl, request
from tests.people import revoke_key, set_role
from zstandard import ZstdError

from ebbtide.accounts.roles import Role
from ebbtide.batches import intake_store
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.model import Job, timestamps
from ebbtide.batches.validation import validate_next
from ebbtide.errors import NotFound
from ebbtide.files.chunks import CHUNK_BYTES
from ebbtide.files.library import delete_file

BOM = b"\xef\xbb\xbf"
A, B = request("a", "ä€🦀"), request("b")


def problems(job: Job) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(job.errors or "[]")
    return found


async def stored_lines(world: World, job: Job) -> list[bytes]:
    """The bytes that the items point at."""
    content = await world.content(job.input_file_id)
    chunks = await world.fetch("select chunk, raw_offset from batch_file_chunks where file_id = $1", job.input_id)
    begins = {row["chunk"]: row["raw_offset"] for row in chunks}
    places = [(begins[i["chunk"]] + i["line_offset"], i["line_length"]) for i in await world.items(job)]
    return [content[at : at + length] for at, length in places]


@pytest.mark.parametrize(
    "content",
    [
        jsonl([A, B]),
        BOM + jsonl([A, B]),
        jsonl([A, B], b"\r\n"),
        BOM + jsonl([A, B], b"\r\n"),
        jsonl([A, B]).rstrip(b"\n"),
        jsonl([A, B]) + b"\n\n  \n",
        b"\n\r\n" + jsonl([A, b"", b"\t", B]),
    ],
    ids=["plain", "bom", "crlf", "bom+crlf", "no last newline", "blank at the end", "blank within"],
)
async def test_the_usual_ways_to_write_lines(world: World, content: bytes) -> None:
    job = await world.validated(content)
    assert (job.status, job.total, job.errors) == ("in_progress", 2, None)
    assert [msgspec.json.decode(line) for line in await stored_lines(world, job)] == [A, B]
    # The file itself stays as it came.
    assert await world.content(job.input_file_id) == content
    assert await books(world.database) == {}


@pytest.mark.parametrize("pieces", [1, 3, 7])
async def test_a_character_split_across_writes_is_fine(world: World, pieces: int) -> None:
    job = await world.from_file(await world.upload(jsonl([A, B], b"\r\n"), pieces=pieces))
    await validate_next(world.intake, await world.worker_no())
    assert (await world.job(job)).total == 2


async def test_lines_across_many_chunks(world: World) -> None:
    lines = [request(f"r{n}", "x" * 100_000) for n in range(45)]
    job = await world.validated(jsonl(lines))
    assert await world.value("select count(*) from batch_file_chunks") > 3
    assert [msgspec.json.decode(line) for line in await stored_lines(world, job)] == lines


async def test_a_line_longer_than_a_chunk(world: World) -> None:
    lines = [request("a"), request("long", "x" * (2 * CHUNK_BYTES)), request("b")]
    job = await world.validated(jsonl(lines))
    assert [msgspec.json.decode(line) for line in await stored_lines(world, job)] == lines


async def test_each_bad_line_is_told_with_its_number(world: World) -> None:
    bad: list[tuple[Any, str]] = [
        (b"{not json", "invalid_json_line"),
        (b'{"custom_id":"\xff\xfe"}', "invalid_json_line"),
        (b'["an", "array"]', "invalid_json_line"),
        (b'"a string"', "invalid_json_line"),
        (b'{"custom_id":"n","x":NaN}', "invalid_json_line"),
        (b'{"custom_id":"n","x":Infinity}', "invalid_json_line"),
        (b'{"custom_id":"n","x":1e999}', "invalid_json_line"),
        (b'{"custom_id":"n","x":"\\ud800"}', "invalid_json_line"),
        (b'{"custom_id":"n","x":' + b"9" * 5000 + b"}", "invalid_json_line"),
        (b'{"custom_id":"n","x":' + b"[" * 100 + b"]" * 100 + b"}", "invalid_json_line"),
        (A, "duplicate_custom_id"),
        (embedding("e"), "url_mismatch"),
        (request("m", model="chat-2"), "model_mismatch"),
        (request("m2", model="nothing"), "model_not_found"),
        (request("m3", model="secret-1"), "model_not_found"),
        (request("m5", model="n\0l"), "invalid_request"),
        (request("m4", model="cloud-1"), "batch_route_unavailable"),
        (request("s", stream=True), "invalid_request"),
        (request("g") | {"method": "GET"}, "invalid_request"),
        ({"custom_id": "n", "method": "POST", "url": "/v1/chat/completions"}, "invalid_request"),
        ({"custom_id": "n2", "method": "POST", "body": A["body"]}, "invalid_request"),
        (request("x" * 513), "invalid_request"),
        (request("x\0"), "invalid_request"),
    ]
    job = await world.validated(jsonl([A, b"", *(line for line, _ in bad), B]))
    assert job.status == "failed"
    assert [(p["line"], p["code"]) for p in problems(job)] == [(3 + n, code) for n, (_, code) in enumerate(bad)]
    assert all(p["message"] for p in problems(job))
    assert (job.total, job.output_id, job.error_id, job.error_code) == (0, None, None, None)
    times = timestamps(job)
    assert times["failed_at"] == times["created_at"]
    assert times["in_progress_at"] is None
    assert await world.value("select count(*) from batch_items") == 0
    assert world.upstream.count == 0


async def test_a_nul_within_a_body_passes(world: World) -> None:
    job = await world.validated(jsonl([request("a", "n\0l")]))
    assert (job.status, job.total) == ("in_progress", 1)


async def test_a_model_mismatch_is_by_canonical_name(world: World) -> None:
    job = await world.validated(jsonl([request("a", model="chatty"), request("b", model="chat-1")]))
    assert (job.status, job.total) == ("in_progress", 2)


async def test_embeddings_are_checked_as_embeddings(world: World) -> None:
    assert (await world.validated(jsonl([embedding("a")]), "/v1/embeddings")).total == 1
    job = await world.validated(jsonl([embedding("a", model="chat-1")]), "/v1/embeddings")
    assert [p["line"] for p in problems(job)] == [1]


@pytest.mark.parametrize("content", [b"\n", b"\r\n \n", BOM], ids=["newline", "blanks", "bom"])
async def test_a_file_without_requests_fails(world: World, content: bytes) -> None:
    job = await world.validated(content)
    assert [p["code"] for p in problems(job)] == ["empty_file"]


async def test_too_many_requests_and_too_long_a_line(world: World) -> None:
    world.set(batch_max_requests=2, batch_max_line_kb=1)
    many = await world.validated(jsonl([A, B, request("c"), request("d")]))
    assert [(p["code"], p["line"]) for p in problems(many)] == [("too_many_tasks", None)]
    assert "4 requests; a batch may hold 2" in problems(many)[0]["message"]
    long = await world.validated(jsonl([A, request("long", "x" * 1024)]))
    assert [(p["code"], p["line"]) for p in problems(long)] == [("line_too_long", 2)]


@pytest.mark.parametrize(("count", "listed"), [(999, 999), (1_000, 1_000), (1_001, 1_000), (2_500, 1_000)])
async def test_up_to_a_thousand_problems_are_listed_and_the_last_tells_the_total(
    world: World, count: int, listed: int
) -> None:
    told = problems(await world.validated(jsonl([b"{"] * count)))
    assert len(told) == listed
    assert told[998] == {"code": "invalid_json_line", "message": told[0]["message"], "param": None, "line": 999}
    if count > listed:
        assert told[-1]["code"] == "too_many_problems"
        assert told[-1]["message"].startswith(f"{count} problems in all")
    else:
        assert told[-1]["line"] == count


async def test_deleting_the_input_file_disturbs_nothing(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))
    await delete_file(world.database, world.owner, job.input_id, world.clock.now())
    await validate_next(world.intake, await world.worker_no())
    assert (await world.job(job)).total == 2


async def test_a_role_lowered_meanwhile_decides_which_models_exist(world: World) -> None:
    await world.account("another", Role.ADMIN)  # the last administrator could not be demoted
    await set_role(world.database, world.owner.account_id, Role.ADMIN)
    job = await world.from_file(jsonl([request("a", model="secret-1")]))
    await set_role(world.database, world.owner.account_id, Role.INTERNAL)
    await validate_next(world.intake, await world.worker_no())
    assert [p["code"] for p in problems(await world.job(job))] == ["model_not_found"]


async def test_a_key_revoked_meanwhile_never_lets_it_run(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))
    await revoke_key(world.database, world.owner.key_id, world.clock.now())
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.error_code) == ("failed", "owner_unauthorized")
    assert world.upstream.count == 0


async def during_validation(world: World, meanwhile: Callable[[], Awaitable[Any]]) -> int:
    """How much `validate_next` did while `meanwhile` happened between its reading of the file and its conclusion."""
    worker_no = await world.worker_no()

    async def waits() -> bool:
        sql = """select exists (select from pg_stat_activity
                 where wait_event_type = 'Lock' and datname = current_database())"""
        return bool(await world.value(sql))

    async with world.database.transaction() as conn:
        await intake_store.lock_creator(conn, world.owner.account_id, world.owner.key_id, world.clock.now())
        task = asyncio.create_task(validate_next(world.intake, worker_no))
        await world.until(waits)
        await meanwhile()
    return await task


async def test_cancelled_while_validating_ends_at_once_with_nothing_run(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))

    async def cancel() -> None:
        cancelled = await cancel_batch(world.database, world.owner, job.id, world.clock.now())
        assert cancelled.status == "cancelled"

    await during_validation(world, cancel)
    ended = await world.job(job)
    assert (ended.status, ended.total, ended.errors) == ("cancelled", 0, None)
    assert timestamps(ended)["cancelled_at"] == timestamps(ended)["cancelling_at"] == timestamps(ended)["created_at"]
    assert await world.value("select count(*) from batch_items") == 0


async def test_deleted_while_validating_leaves_nothing(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))
    await during_validation(world, lambda: delete_batch(world.database, world.owner, job.id, world.clock.now()))
    with pytest.raises(NotFound):
        await world.job(job)
    assert await world.value("select count(*) from batch_items") == 0


async def test_a_validation_is_taken_over_from_a_dead_worker_only(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))
    first, second = await world.worker_no(), await world.worker_no()
    async with world.database.transaction() as conn:
        assert await intake_store.claim_validation(conn, first) is not None
    assert await validate_next(world.intake, second) == 0
    await world.lapse(first)
    assert await validate_next(world.intake, second) == 1
    assert (await world.job(job)).total == 2


async def test_a_late_conclusion_of_the_one_that_lost_it_changes_nothing(world: World) -> None:
    job = await world.from_file(jsonl([A, B]))

    async def other_takes_it() -> None:
        await world.value("update batch_jobs set owner_no = 999 returning 1")

    await during_validation(world, other_takes_it)
    assert (await world.job(job)).status == "validating"
    assert await world.value("select count(*) from batch_items") == 0
    assert await validate_next(world.intake, await world.worker_no()) == 1
    assert (await world.job(job)).total == 2


async def test_a_batch_of_a_kind_this_build_does_not_know_is_left_alone(world: World) -> None:
    await world.from_file(jsonl([A, B]))
    await world.value("update batch_jobs set schema_version = 99 returning 1")
    assert await validate_next(world.intake, await world.worker_no()) == 0


async def test_a_file_that_breaks_the_validation_holds_up_no_other(world: World) -> None:
    broken = await world.from_file(jsonl([A]))
    await world.value("update batch_file_chunks set data = 'not zstd' returning 1")
    good = [await world.from_file(jsonl([A])) for _ in range(2)]
    worker_no = await world.worker_no()
    with pytest.raises(ZstdError):
        await validate_next(world.intake, worker_no)
    for _ in range(2):
        assert await validate_next(world.intake, worker_no) == 1
    assert [(await world.job(job)).status for job in good] == ["in_progress"] * 2
    assert (await world.job(broken)).status == "validating"
