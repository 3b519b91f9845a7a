"""Creating batches: checked whole, stored whole or not at all, within the account's limits, nothing run in the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.domain import World, books, embedding, jsonl, request
from tests.people import revoke_key, suspend_account

from ebbtide.accounts.roles import Role
from ebbtide.batches.model import timestamps
from ebbtide.batches.validation import validate_next
from ebbtide.errors import EbbtideError, Forbidden, InvalidRequest, LimitReached, Unauthenticated


async def nothing_stored(world: World) -> bool:
    tables = ("batch_jobs", "batch_items", "batch_queues", "batch_files", "batch_file_chunks")
    return not any([await world.value(f"select count(*) from {table}") for table in tables])


async def test_fifty_thousand_requests_are_one_transaction_and_run_nothing(own_world: World) -> None:
    world = own_world
    job = await world.many(50_000)
    assert (job.status, job.total, job.completed) == ("validating", 50_000, 0)
    assert await world.value("select count(*) from batch_items where batch_no = $1", job.no) == 50_000
    # Ids ascend in submission order.
    first = await world.fetch("select custom_id from batch_items where batch_no = $1 order by id limit 3", job.no)
    assert [row["custom_id"] for row in first] == ["r0", "r1", "r2"]
    assert await world.value("select count(distinct xmin::text) from batch_items") == 1
    assert await books(world.database) == {}
    assert world.upstream.count == 0


async def test_the_last_one_of_many_being_invalid_stores_nothing_and_names_it(world: World) -> None:
    bad = request("the bad one", model="nothing-like-it")
    with pytest.raises(InvalidRequest) as told:
        await world.direct(*(request(f"r{n}") for n in range(5_000)), bad)
    assert told.value.message == "requests[5000] (custom_id 'the bad one'): Model 'nothing-like-it' not found"
    assert told.value.param == "requests[5000].model"
    assert told.value.code is None
    assert await nothing_stored(world)


async def test_the_batch_and_each_request_are_stored_as_sent(world: World) -> None:
    job = await world.direct(
        request("a", "Über\u2028 line"), request("b", model="chatty"), request("c", model="chat-2"), metadata={"k": "v"}
    )
    assert (job.api_surface, job.target, job.input_file_id) == ("openai_inline", "chat", None)
    assert (job.completion_window, job.retention_days, job.metadata) == ("24h", 7, '{"k": "v"}')
    assert job.key_id == world.owner.key_id
    times = timestamps(job)
    assert (times["expires_at"] or 0) - (times["created_at"] or 0) == 24 * 3600
    # An alias is resolved when the batch is created.
    assert [item["model"] for item in await world.items(job)] == ["chat-1", "chat-1", "chat-2"]


async def test_the_batch_tells_the_model_where_all_requests_name_one(world: World) -> None:
    assert (await world.direct(request("a"), request("b", model="chat-2"))).model is None
    assert (await world.direct(request("a"), request("b", model="chatty"))).model == "chat-1"
    from_file = await world.from_file(jsonl([request("a", model="chatty")]))
    assert from_file.model is None
    assert await validate_next(world.intake, await world.worker_no()) == 1
    assert (await world.job(from_file)).model == "chat-1"


async def test_no_window_is_a_window_that_never_ends(world: World) -> None:
    world.set(batch_completion_window_hours=0)
    direct = await world.many(1)
    assert (direct.completion_window, direct.expires_at) == ("none", None)
    file = await world.from_file(jsonl([request("a")]))
    assert (file.completion_window, file.expires_at) == ("24h", None)


async def test_a_shorter_window_holds_for_direct_batches_only(world: World) -> None:
    world.set(batch_completion_window_hours=2)
    direct = await world.many(1)
    assert direct.completion_window == "2h"
    file = await world.from_file(jsonl([request("a")]))
    assert file.completion_window == "24h"
    assert file.expires_at is not None
    assert (file.expires_at - file.created_at).total_seconds() == 24 * 3600


REFUSED: list[tuple[dict[str, Any], str, str | None]] = [
    (request("x", model="nothing"), "Model 'nothing' not found", None),
    # A model one may not use is told exactly as one that does not exist.
    (request("x", model="secret-1"), "Model 'secret-1' not found", None),
    (request("x", model="auto"), "Model 'auto' chooses a model for each request", None),
    (request("x", model="auto-fast"), "Model 'auto-fast' chooses a model", None),
    (request("x", model="embed-1"), "Model 'embed-1' serves embeddings only", None),
    (request("x", model="cloud-1"), "no route that batch work may use", "batch_route_unavailable"),
    (request("x", stream=True), "stream", None),
    (request("x", background=True), "background", None),
    (request("x", priority=3), "priority", None),
    (request("x", service_tier="flex"), "service_tier", None),
    (request("first"), "custom_id is used twice", None),
    (embedding("x"), "url must be /v1/chat/completions", None),
    (request("") | {"custom_id": "n\0l"}, "custom_id", None),
    (request("x") | {"method": "GET"}, "method", None),
    (request("x") | {"url": "/v1/elsewhere"}, "url must be", None),
]


@pytest.mark.parametrize(
    ("bad", "message", "code"), REFUSED, ids=[f"{n}-{row[1][:30]}" for n, row in enumerate(REFUSED)]
)
async def test_one_bad_request_refuses_the_whole_batch(
    world: World, bad: dict[str, Any], message: str, code: str | None
) -> None:
    with pytest.raises(InvalidRequest) as told:
        await world.direct(request("first"), bad)
    assert told.value.message.startswith("requests[1]")
    assert message in told.value.message
    assert told.value.code == code
    assert await nothing_stored(world)


async def test_a_chat_model_is_refused_for_embeddings(world: World) -> None:
    with pytest.raises(InvalidRequest, match="Model 'chat-1' serves chat completions only"):
        await world.direct(embedding("a", model="chat-1"))


@pytest.mark.parametrize("tier", ["auto", "default"])
async def test_an_ordinary_service_tier_passes(world: World, tier: str) -> None:
    assert (await world.direct(request("a", service_tier=tier))).total == 1


async def test_too_many_requests_and_too_long_a_request_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set(batch_max_requests=2)
    monkeypatch.setattr("ebbtide.batches.intake.LONGEST_LINE", 1 << 20)
    with pytest.raises(InvalidRequest, match="3 requests; a batch may hold 2"):
        await world.many(3)
    with pytest.raises(InvalidRequest, match=r"requests\[1\] \(custom_id 'b'\): larger than 1 MiB"):
        await world.direct(request("a"), request("b", "x" * (1 << 20)))
    assert await nothing_stored(world)


async def test_the_limit_of_a_files_lines_is_none_of_direct_requests(world: World) -> None:
    world.set(batch_max_line_kb=1)
    job = await world.direct(request("a", "x" * (5 << 20)), request("b"))
    async with world.worker():
        assert (await world.until_ended(job)).completed == 2


async def test_a_role_below_the_minimum_may_not_create(world: World) -> None:
    low = await world.account("low", Role.PRO)
    with pytest.raises(Forbidden):
        await world.many(1, owner=low)
    world.set(batch_min_role="pro")
    assert (await world.many(1, owner=low)).account_id == low.account_id


async def test_a_key_that_ended_meanwhile_stores_nothing(world: World) -> None:
    await revoke_key(world.database, world.owner.key_id, world.clock.now())
    with pytest.raises(Unauthenticated):
        await world.many(1)
    other = await world.account("other")
    await suspend_account(world.database, other.account_id)
    with pytest.raises(Unauthenticated):
        await world.many(1, owner=other)
    assert await nothing_stored(world)


async def outcomes(*creates: Any) -> list[str | None]:
    """What became of several creates at once: None for a batch, else the code of the refusal."""
    results = await asyncio.gather(*creates, return_exceptions=True)
    return [result.code if isinstance(result, EbbtideError) else None for result in results]


async def test_two_creates_at_once_cannot_both_take_the_last_place(world: World) -> None:
    world.set(batch_max_active_per_user=3)
    await world.many(1)
    await world.many(1)
    assert sorted(map(str, await outcomes(*(world.many(1) for _ in range(6))))) == ["None"] + ["active_batch_limit"] * 5
    # Another account has its own places; a file takes one like any other batch.
    assert (await world.many(1, owner=await world.account("other"))).total == 1
    with pytest.raises(LimitReached):
        await world.from_file(jsonl([request("a")]))


async def test_unfinished_requests_are_counted_together_under_concurrency(world: World) -> None:
    world.set(batch_max_queued_requests_per_user=50)
    told = await outcomes(*(world.many(20) for _ in range(6)))
    assert sorted(map(str, told)) == ["None"] * 2 + ["queued_request_limit"] * 4
    assert await world.value("select count(*) from batch_items") == 40
    assert (await world.many(10)).total == 10
    with pytest.raises(LimitReached, match="take your unfinished requests to 51; 50 are allowed"):
        await world.many(1)


async def test_a_file_is_counted_when_it_has_been_read(world: World) -> None:
    world.set(batch_max_queued_requests_per_user=3)
    await world.many(2)
    job = await world.validated(jsonl([request("a"), request("b")]))
    assert job.status == "failed"
    assert job.errors is not None
    assert '"code": "queued_request_limit"' in job.errors
    assert (job.total, job.completed, job.failed) == (0, 0, 0)
    assert (await world.validated(jsonl([request("a")]))).status == "in_progress"


@pytest.mark.parametrize("which", ["unknown", "another account's", "deleted", "expired", "a result file"])
async def test_a_file_that_is_not_ones_own_input_is_refused(world: World, which: str) -> None:
    file = await world.upload(jsonl([request("a")]), owner=await world.account("other") if "another" in which else None)
    if which == "unknown":
        await world.value("delete from batch_files returning 1")
    elif which == "deleted":
        await world.value("update batch_files set deleted_at = now() returning 1")
    elif which == "expired":
        world.clock.move(days=31)
    elif which == "a result file":
        await world.value("update batch_files set purpose = 'batch_output', batch_id = 'batch_x' returning 1")
    with pytest.raises(InvalidRequest) as told:
        await world.from_file(file)
    assert told.value.param == "input_file_id"
    assert await world.value("select count(*) from batch_jobs") == 0


@pytest.mark.parametrize("custom_id", ["line\nbreak", 'quo"te', "emoji 🦀", "x" * 512, "\u2028\u0085", "\\u0000"])
async def test_a_custom_id_comes_back_unchanged(world: World, custom_id: str) -> None:
    job = await world.direct(request(custom_id))
    assert [item["custom_id"] for item in await world.items(job)] == [custom_id]
