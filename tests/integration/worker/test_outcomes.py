"""Each way a call can go, through a real worker: the item's state, its error, its attempts and what they cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.domain import World, books, embedding, models_at, request
from tests.fake_upstream import Behaviour, Received, closed_port
from tests.people import resume_account, revoke_key, set_role, suspend_account

from ebbtide.accounts.roles import Role
from ebbtide.batches.model import Job
from ebbtide.batches.results import list_results
from ebbtide.catalog.catalog import Catalog


@dataclass(frozen=True)
class Row:
    """One behaviour, and what must come of it. `cost`: None unknown, else what the attempt row says."""

    text: str
    state: str
    code: str
    status: int
    outcome: str
    cost: str | None = "0"
    counted: int = 1


def waits(text: str, code: str, status: int, cost: str | None = "0") -> Row:
    return Row(text, "queued", code, status, "retried", cost)


def fails(text: str, code: str, status: int, cost: str | None = "0") -> Row:
    return Row(text, "failed", code, status, "failed", cost)


ROWS = [
    waits("reset", "upstream_error", 502, None),
    waits("close", "upstream_error", 502, None),
    waits("half", "upstream_error", 502, None),
    waits("half-close", "upstream_error", 502, None),
    waits("status=408", "upstream_error", 408),
    waits("status=425", "upstream_error", 425),
    waits("status=429,retry-after=7", "rate_limited", 429),
    waits("status=500", "upstream_error", 500),
    waits("status=502", "upstream_error", 502),
    waits("status=503", "service_unavailable", 503),
    waits("status=529", "upstream_error", 529),
    waits("error200", "upstream_error", 502),
    waits("error200,code=overloaded", "upstream_error", 502),
    waits("status=503,retry-after=NaN", "service_unavailable", 503),
    waits("status=503,retry-after=-5", "service_unavailable", 503),
    waits("status=503,retry-after=rubbish", "service_unavailable", 503),
    fails("stall", "timeout", 504, None),
    fails("stall-body", "timeout", 504, None),
    fails("status=504", "timeout", 504, None),
    fails("status=503,retry-after=1e9", "service_unavailable", 503),  # capped at 168 hours, after the window
    fails("status=400", "invalid_request", 400),
    fails("status=401", "upstream_error", 401),
    fails("status=403", "forbidden", 403),
    fails("status=404", "model_not_found", 404),
    fails("status=413", "invalid_request", 413),
    fails("status=422", "invalid_request", 422),
    fails("html", "upstream_error", 502, None),
    fails("truncated", "upstream_error", 502, None),
    fails("array", "upstream_error", 502, None),
    fails("empty", "upstream_error", 502, None),
    fails("redirect", "upstream_error", 502),
    fails("huge,size=100000", "result_too_large", 502, None),
    Row("queued,retry-after=45", "queued", "service_unavailable", 503, "queued", counted=0),
    Row("queued", "queued", "service_unavailable", 503, "queued", counted=0),
]


async def settled(world: World, job: Job, count: int) -> dict[str, Any]:
    """The attempt rows by custom_id, once there are `count`."""

    async def rows() -> list[Any] | None:
        found = await world.attempts(job)
        return found if len(found) >= count else None

    names = {item["id"]: item["custom_id"] for item in await world.items(job)}
    return {names[row["item_id"]]: row for row in await world.until(rows)}


async def test_every_row_of_the_retry_rules(world: World) -> None:
    world.set(batch_max_result_kb=50)
    job = await world.direct(*(request(row.text, f"behave:{row.text}") for row in ROWS), request("fine"))
    async with world.worker():
        attempts = await settled(world, job, len(ROWS) + 1)
    items = {item["custom_id"]: item for item in await world.items(job)}
    for row in ROWS:
        item, attempt = items[row.text], attempts[row.text]
        told = (item["state"], item["attempts"], item["error_code"], item["error_status"], attempt["outcome"])
        assert told == (row.state, row.counted, row.code, row.status, row.outcome), row.text
        assert (attempt["cost_usd"] is None) is (row.cost is None), row.text
        assert attempt["cost_usd"] is None or attempt["cost_usd"] == Decimal(row.cost or 0)
        assert (attempt["attempt"], attempt["claim_epoch"], attempt["status_code"]) == (1, 1, row.status)
        assert attempt["error_code"] == row.code
        assert attempt["route"] == "chat-1-route"
        assert item["error_message"]
        assert "127.0.0.1" not in item["error_message"]
        if row.state == "queued":
            assert item["ready_at"] > world.clock.now(), row.text
    assert world.upstream.count == len(ROWS) + 1

    waited = {name: (item["ready_at"] - world.clock.now()).total_seconds() for name, item in items.items()}
    assert 2.5 <= waited["reset"] <= 5
    assert waited["status=429,retry-after=7"] == 7
    assert waited["queued,retry-after=45"] == 45
    assert waited["queued"] == 120
    unknown = sum(row.cost is None for row in ROWS)
    now = await world.job(job)
    assert (now.status, now.completed, now.cost_unknown_attempts) == ("in_progress", 1, unknown)
    assert await books(world.database) == {}


async def test_an_answer_is_stored_with_its_bill(world: World) -> None:
    await world.direct(request("other"))
    job = await world.direct(request("a", "Hello there", model="chatty"))
    async with world.worker():
        ended = await world.until_ended(job)
    page = await list_results(world.database, ended, None, 10)
    (result,) = page.items
    answer = msgspec.json.decode(result.answer or b"")
    assert (result.state, result.error_code) == ("completed", None)
    assert answer["model"] == "chatty"
    usage = answer["usage"]
    (attempt,) = await world.attempts(job)
    assert attempt["cost_usd"] == (Decimal(usage["prompt_tokens"]) + 2 * Decimal(usage["completion_tokens"])) / 10**6
    assert (attempt["outcome"], attempt["request_id"]) == ("completed", result.request_id)
    assert (ended.input_tokens, ended.output_tokens) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert ended.cost_usd == attempt["cost_usd"] > 0
    # The upstream was asked for its own name of the model, with the rest as it was sent.
    (sent,) = [r.json for r in world.upstream.requests if r.text == "Hello there"]
    assert sent == {"model": "upstream-model", "messages": [{"role": "user", "content": "Hello there"}]}
    assert await books(world.database) == {}


async def test_no_usage_means_an_unknown_cost_never_none(world: World) -> None:
    job = await world.direct(request("a", "behave:usage=none"))
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.completed, ended.cost_unknown_attempts, ended.cost_usd) == (1, 1, Decimal(0))
    assert (await world.attempts(job))[0]["cost_usd"] is None


async def test_embeddings_run_at_their_endpoint(world: World) -> None:
    job = await world.direct(embedding("a"), embedding("b"))
    async with world.worker():
        ended = await world.until_ended(job)
    assert ended.completed == 2
    assert {r.path for r in world.upstream.requests} == {"/v1/embeddings"}


async def test_a_refused_connection_is_tried_again_and_known_to_be_free(world: World) -> None:
    world.models.current = models_at(f"http://127.0.0.1:{closed_port()}/v1")
    job = await world.direct(request("a"))
    async with world.worker():
        attempts = await settled(world, job, 1)
        assert (attempts["a"]["outcome"], attempts["a"]["cost_usd"]) == ("retried", 0)
        world.models.current = models_at(world.upstream.url)
        await world.move(seconds=6)
        ended = await world.until_ended(job)
    assert (ended.completed, ended.cost_unknown_attempts) == (1, 0)
    assert [row["attempt"] for row in await world.attempts(job)] == [1, 2]
    # What went wrong before is forgotten with the success.
    assert (await world.items(job))[0]["error_code"] is None


async def test_backoff_doubles_and_a_success_ends_it(world: World) -> None:
    world.upstream.script.extend([Behaviour(status=500)] * 4)
    job = await world.direct(request("a"))
    waits = []
    async with world.worker():
        for tries in range(1, 5):
            await settled(world, job, 1)
            await world.until(lambda n=tries: tried(world, job, n))  # type: ignore[misc]  # a loop variable, bound
            (item,) = await world.items(job)
            waits.append((item["ready_at"] - world.clock.now()).total_seconds())
            await world.move(seconds=waits[-1] + 0.001)
        ended = await world.until_ended(job)
    assert all(base / 2 <= wait <= base for base, wait in zip((5, 10, 20, 40), waits, strict=True))
    assert ended.completed == 1
    assert (await world.items(job))[0]["attempts"] == 5


async def tried(world: World, job: Job, times: int) -> bool:
    (item,) = await world.items(job)
    return bool(item["attempts"] == times and item["state"] == "queued")


async def test_the_next_try_after_the_window_fails_with_the_last_real_error(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour(status=503, message="no capacity today")
    job = await world.direct(request("a"))
    world.clock.move(hours=23, minutes=59, seconds=59)
    async with world.worker():
        ended = await world.until_ended(job)
    (item,) = await world.items(job)
    assert (item["state"], item["error_code"], item["error_status"]) == ("failed", "service_unavailable", 503)
    assert "no capacity today" in item["error_message"]
    # Every request was tried, so the batch did not expire.
    assert (ended.status, ended.failed, ended.expired) == ("completed", 1, 0)


async def test_without_a_window_a_request_is_tried_two_thousand_times(world: World) -> None:
    world.set(batch_completion_window_hours=0)
    world.upstream.decide = lambda _: Behaviour(status=500)
    job = await world.many(2)
    await world.value("update batch_items set attempts = 1998 where custom_id = 'r0' returning 1")
    await world.value("update batch_items set attempts = 1999 where custom_id = 'r1' returning 1")
    async with world.worker():
        await settled(world, job, 2)
    assert await world.states(job) == {"r0": "queued", "r1": "failed"}


async def test_a_model_that_is_queued_uses_no_attempt_and_serves_when_it_is_up(world: World) -> None:
    world.upstream.script.extend([Behaviour("queued", retry_after="30")] * 2)
    job = await world.direct(request("a"))
    async with world.worker():
        for epoch in (1, 2):
            await world.until(lambda n=epoch: waits_again(world, job, n))  # type: ignore[misc]  # bound
            await world.move(seconds=31)
        ended = await world.until_ended(job)
    assert (await world.items(job))[0]["attempts"] == 1
    rows = await world.attempts(job)
    assert [(row["outcome"], row["attempt"]) for row in rows] == [("queued", 1), ("queued", 1), ("completed", 1)]
    assert (ended.completed, ended.cost_unknown_attempts) == (1, 0)


async def waits_again(world: World, job: Job, epoch: int) -> bool:
    (item,) = await world.items(job)
    return bool(item["claim_epoch"] == epoch and item["state"] == "queued")


async def test_a_model_queued_past_the_window_expires_as_never_run(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour("queued", retry_after="3600")
    job = await world.direct(request("a"))
    world.clock.move(hours=23, minutes=30)
    async with world.worker():
        await settled(world, job, 1)
        assert await world.states(job) == {"a": "queued"}
        await world.move(hours=1)
        ended = await world.until_ended(job)
    assert (ended.status, ended.expired, ended.failed) == ("expired", 1, 0)
    assert world.upstream.count == 1


async def test_a_model_queued_past_the_window_leaves_a_request_that_was_tried_its_last_real_error(world: World) -> None:
    queued = Behaviour("queued", retry_after="3600")
    world.upstream.script.extend([Behaviour(status=500, message="out of memory"), queued])
    job = await world.direct(request("a"))
    world.clock.move(hours=23, minutes=30)
    async with world.worker():
        await world.until(lambda: tried(world, job, 1))
        await world.move(seconds=5)
        await world.until(lambda: waits_again(world, job, 2))
        await world.move(hours=1)
        ended = await world.until_ended(job)
    (item,) = await world.items(job)
    assert (item["state"], item["attempts"], item["error_code"], item["error_status"]) == (
        *("failed", 1, "upstream_error", 500),
    )
    assert item["error_message"] == "out of memory"
    assert (ended.status, ended.failed) == ("completed", 1)


async def test_an_item_that_cannot_be_built_fails_alone_and_once(world: World) -> None:
    job = await world.many(3)
    await world.value("update batch_items set chunk = 7 where custom_id = 'r1' returning 1")
    with capture_logs() as logs:
        async with world.worker():
            ended = await world.until_ended(job)
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["item_broke"]
    assert await world.states(job) == {"r0": "completed", "r1": "failed", "r2": "completed"}
    (row,) = [row for row in await world.attempts(job) if row["outcome"] == "failed"]
    # Nothing was sent, so nothing can have been charged.
    assert (row["error_code"], row["cost_usd"]) == ("upstream_error", 0)
    assert (ended.failed, ended.cost_unknown_attempts) == (1, 0)


async def test_a_model_that_is_gone_fails_its_items(world: World) -> None:
    job = await world.many(2)
    world.models.current = Catalog.of([])
    async with world.worker():
        ended = await world.until_ended(job)
    items = await world.items(job)
    assert {(i["error_code"], i["error_status"]) for i in items} == {("model_not_found", 404)}
    assert (ended.status, ended.failed, ended.cost_unknown_attempts, world.upstream.count) == ("completed", 2, 0, 0)


async def test_a_model_that_lost_its_last_batch_route_fails_its_items(world: World) -> None:
    job = await world.many(1)
    cloud = models_at(world.upstream.url).resolve("cloud-1")
    assert cloud is not None
    world.models.current = Catalog.of([replace(cloud, id="chat-1")])
    async with world.worker():
        await world.until_ended(job)
    (item,) = await world.items(job)
    assert (item["error_code"], item["error_status"]) == ("batch_route_unavailable", 400)


async def test_every_request_failed_is_completed(world: World) -> None:
    job = await world.direct(*(request(f"r{n}", "behave:status=400") for n in range(3)))
    async with world.worker():
        ended = await world.until_ended(job)
    assert (ended.status, ended.completed, ended.failed) == ("completed", 0, 3)


@pytest.mark.parametrize("how", ["revoked", "key expired", "suspended"])
async def test_a_creator_that_may_no_longer_act_fails_what_has_not_started(world: World, how: str) -> None:
    world.set(batch_model_concurrency=2)
    world.upstream.decide = lambda received: Behaviour(latency=0.4)
    job = await world.many(40)
    async with world.worker():
        await world.upstream.arrived.get()
        if how == "revoked":
            await revoke_key(world.database, world.owner.key_id, world.clock.now())
        elif how == "suspended":
            await suspend_account(world.database, world.owner.account_id)
        else:
            expiry = "update api_keys set expires_at = $2 where id = $1 returning 1"
            await world.value(expiry, world.owner.key_id, world.clock.now())
        ended = await world.until_ended(job)
    assert (ended.status, ended.error_code) == ("failed", "owner_unauthorized")
    assert ended.error_message
    items = await world.items(job)
    ran = [item for item in items if item["state"] == "completed"]
    assert len(ran) == world.upstream.count == ended.completed
    assert 1 <= len(ran) < 20
    assert {item["error_code"] for item in items if item["state"] == "failed"} == {"batch_failed"}
    assert ended.failed == 40 - len(ran)
    assert await books(world.database) == {}


async def test_a_role_below_the_minimum_waits_and_resumes(world: World) -> None:
    await set_role(world.database, world.owner.account_id, Role.PRO)
    other = await world.account("other")
    job, neighbour = await world.many(2, owner=world.owner), await world.many(2, owner=other)
    async with world.worker():
        await world.until(lambda: ended(world, neighbour.no))
        assert await world.states(job) == {"r0": "queued", "r1": "queued"}
        await set_role(world.database, world.owner.account_id, Role.INTERNAL)
        assert (await world.until_ended(job)).completed == 2


async def test_a_suspended_neighbour_stops_nobody(world: World) -> None:
    other = await world.account("other")
    theirs = await world.many(5, owner=other)
    mine = await world.many(5)
    await suspend_account(world.database, other.account_id)
    async with world.worker():
        assert (await world.until_ended(mine)).completed == 5
        await world.until(lambda: ended(world, theirs.no))
    await resume_account(world.database, other.account_id)
    assert await world.value("select status from batch_jobs where no = $1", theirs.no) == "failed"


async def ended(world: World, batch_no: int) -> bool:
    return bool(await world.value("select phase = 'sealed' from batch_jobs where no = $1", batch_no))


async def test_a_blocked_model_stops_no_other(world: World) -> None:
    world.upstream.decide = lambda received: Behaviour("stall") if received.text == "stall" else None
    blocked, free = await world.many(5, model="chat-2", text="stall"), await world.many(50)
    async with world.worker(grace_seconds=0.1):
        assert (await world.until_ended(free)).completed == 50
    assert set((await world.states(blocked)).values()) <= {"queued", "failed"}


async def test_a_waiting_retry_is_looked_at_while_another_model_is_busy(world: World) -> None:
    """Nothing announces that a retry's time has come; a worker that is busy elsewhere must look by itself."""
    world.set(batch_model_concurrency=4)
    first = asyncio.Event()

    def decide(received: Received) -> Behaviour | None:
        if received.text == "once" and not first.is_set():
            first.set()
            return Behaviour(status=503)
        return Behaviour(latency=0.01)

    world.upstream.decide = decide
    busy = await world.many(2_000)
    retried = await world.direct(request("a", "once", model="chat-2"))
    async with world.worker():
        await settled(world, retried, 1)
        world.clock.move(seconds=10)
        await world.until_ended(retried, within=5)
        assert (await world.job(busy)).status == "in_progress"
