"""/admin/batch/models: caps of models, what they run and have waiting, and how soon a changed cap is in force."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role

MODELS = "/admin/batch/models"


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(upstream.url, aliases=["short"]), chat_model(upstream.url, "org/chat-2"))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def figures(gateway: TestGateway, model: str = "chat-1") -> Any:
    answer = await gateway.call("GET", MODELS)
    assert answer.status == 200, answer.body
    (found,) = [one for one in answer.json["data"] if one["model_id"] == model]
    return found


async def cap(gateway: TestGateway, limit: int | None, model: str = "chat-1") -> Any:
    answer = await gateway.call("PATCH", f"{MODELS}/{model}", json={"max_concurrency": limit})
    assert answer.status == 200, answer.body
    return answer.json


async def create(gateway: TestGateway, count: int, model: str = "chat-1") -> str:
    lines = [request_line(f"r{n}", model) for n in range(count)]
    answer = await gateway.call("POST", "/v1/batches", json={"requests": lines})
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def test_every_model_is_listed_with_its_cap(gateway: TestGateway) -> None:
    assert await figures(gateway) == {
        "object": "batch_model",
        "model_id": "chat-1",
        "max_concurrency": None,
        "effective_max_concurrency": 64,
        "running": 0,
        "queued": 0,
        "interactive": 0,
        "blocked_reason": None,
        "rest_until": None,
        "waiting_since": None,
    }
    await gateway.call("PATCH", "/admin/config", json={"BATCH_MODEL_CONCURRENCY": 5})
    changed = await cap(gateway, 7, "short")
    assert (changed["model_id"], changed["max_concurrency"], changed["effective_max_concurrency"]) == ("chat-1", 7, 7)
    other = await figures(gateway, "org/chat-2")
    assert (other["max_concurrency"], other["effective_max_concurrency"]) == (None, 5)
    assert (await cap(gateway, None))["effective_max_concurrency"] == 5
    audit = (await gateway.call("GET", "/admin/audit")).json["data"]
    assert [(e["action"], e["subject"], e["detail"]) for e in audit[:2]] == [
        ("model.batch_limit", "chat-1", {"old": 7, "new": None}),
        ("model.batch_limit", "chat-1", {"old": None, "new": 7}),
    ]


async def test_a_cap_goes_up_and_down_while_a_batch_runs(gateway: TestGateway, upstream: FakeUpstream) -> None:
    upstream.decide = lambda _: Behaviour(latency=0.05)
    await cap(gateway, 2)
    batch = await create(gateway, 2_000)
    for limit in (2, 8, 3):
        await cap(gateway, limit)
        await until(lambda n=limit: runs_exactly(upstream, n), within=10)  # a loop variable, bound
    running = await figures(gateway)
    assert 0 < running["running"] <= 3  # what is held ready is queued
    assert 0 < running["running"] + running["queued"] < 2_000
    await gateway.call("POST", f"/v1/batches/{batch}/cancel")


async def runs_exactly(upstream: FakeUpstream, count: int) -> bool:
    """Whether exactly so many run at once while the upstream answers a few more."""
    upstream.peak = 0
    goal = upstream.count + 3 * count + 5
    await until(lambda: at_least(upstream, goal))
    return upstream.peak == count


async def at_least(upstream: FakeUpstream, count: int) -> bool:
    return upstream.count >= count


async def test_zero_pauses_the_model_and_says_so(gateway: TestGateway, upstream: FakeUpstream) -> None:
    paused = await cap(gateway, 0, "org/chat-2")
    assert (paused["effective_max_concurrency"], paused["blocked_reason"]) == (0, "model_cap")
    waits, runs = await create(gateway, 3, "org/chat-2"), await create(gateway, 3)
    await until(lambda: has_ended(gateway, runs))
    assert (await figures(gateway, "org/chat-2"))["queued"] == 3
    assert upstream.count == 3

    async def says_why() -> bool:
        batch = (await gateway.call("GET", f"/v1/batches/{waits}")).json
        return bool(batch["blocked_reason"] == "model_cap")

    await until(says_why)
    assert (await cap(gateway, None, "org/chat-2"))["blocked_reason"] is None
    await until(lambda: has_ended(gateway, waits))


async def has_ended(gateway: TestGateway, batch: str) -> bool:
    return bool((await gateway.call("GET", f"/v1/batches/{batch}")).json["status"] == "completed")


async def test_only_what_claims_may_take_counts_as_queued(gateway: TestGateway) -> None:
    """Orphans of cancelled, deleted and expired batches, and of ones unknown to this build, are not in the figure."""
    await cap(gateway, 0)
    batches = [await create(gateway, 10) for _ in range(6)]
    assert (await figures(gateway))["queued"] == 60
    changes = (
        "closing = 'cancelled', closing_at = now()",
        "deleted_at = now()",
        "expires_at = now() - interval '1 second'",
        "results_full = true",
        "schema_version = 99",
    )
    for batch, change in zip(batches, changes, strict=False):
        async with gateway.database.connection() as conn:
            # As it is for a moment, before the duties have done their part.
            await conn.execute(f"update batch_jobs set {change} where id = $1", batch)
            claimable = await conn.fetchval(
                "select count(*) from batch_jobs where phase = 'open' and closing is null and not results_full"
                " and deleted_at is null and expires_at > now() and schema_version < 99"
            )
        assert (await figures(gateway))["queued"] == claimable * 10
    assert (await figures(gateway))["queued"] == 10


@pytest.mark.parametrize(
    ("model", "body", "status"),
    [
        ("chat-1", b'{"max_concurrency": -1}', 400),
        ("chat-1", b'{"max_concurrency": 100001}', 400),
        ("chat-1", b'{"max_concurrency": 1.5}', 400),
        ("chat-1", b'{"max_concurrency": true}', 400),
        ("chat-1", b'{"max_concurrency": "8"}', 400),
        ("chat-1", b"{}", 400),
        ("chat-1", b"8", 400),
        ("chat-1", b'{"max_concurrency": 8, "more": 1}', 400),
        ("nobody", b'{"max_concurrency": 8}', 404),
    ],
)
async def test_what_is_no_cap_is_refused(gateway: TestGateway, model: str, body: bytes, status: int) -> None:
    answer = await gateway.call("PATCH", f"{MODELS}/{model}", data=body)
    assert answer.status == status
    assert (await figures(gateway))["max_concurrency"] is None


async def test_only_administrators_see_or_change(gateway: TestGateway) -> None:
    key = await gateway.new_key("worker", Role.INTERNAL)
    for method, path in (("GET", MODELS), ("PATCH", f"{MODELS}/chat-1"), ("GET", "/metrics")):
        assert (await gateway.call(method, path, key=key, data=b"{}")).status == 403
        assert (await gateway.call(method, path, key=None, data=b"{}")).status == 401


async def test_metrics_are_in_prometheus_form(gateway: TestGateway) -> None:
    answer = await gateway.call("GET", "/metrics")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert b"# TYPE ebbtide_alerts_total counter" in answer.body
