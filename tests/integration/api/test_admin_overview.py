"""/admin/overview: one look at the whole deployment tells what runs, waits, rests and fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, request_line, start_gateway, until
from tests.wire import Wire


@pytest.fixture
async def working(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    """A gateway with a worker."""
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def look(gateway: TestGateway) -> Any:
    answer = await gateway.call("GET", "/admin/overview")
    assert answer.status == 200, answer.body
    return answer.json


async def chat(gateway: TestGateway) -> int:
    body = {"model": "chat-1", "messages": [{"role": "user", "content": "Hello"}]}
    return (await gateway.call("POST", "/v1/chat/completions", json=body)).status


async def test_a_quiet_gateway(gateway: TestGateway) -> None:
    told = await look(gateway)
    assert (told["database_reachable"], told["checks"]["database"], told["processes"]) == (True, "ok", {"0": "ok"})
    deployment = told["deployment"]
    for source in ("interactive", "batch"):
        assert set(deployment["traffic"][source].values()) == {0}
    assert [model["model_id"] for model in deployment["models"]] == ["chat-1", "embed-1", "org/for-admins"]
    nothing = ("open_circuits", "routes_off", "resting_models", "alerts")
    assert [deployment[name] for name in nothing] == [[], [], [], []]
    assert deployment["backlog"]["workers"] == 0


async def test_what_was_done_what_waits_and_what_is_wrong(working: TestGateway, upstream: FakeUpstream) -> None:
    gateway = working
    assert await chat(gateway) == 200
    settings = {"ROUTING_BREAKER_FAILURES": 1, "ROUTING_BREAKER_SECONDS": 60, "BATCH_MODEL_CONCURRENCY": 0}
    await gateway.call("PATCH", "/admin/config", json=settings)
    await gateway.call("POST", "/v1/batches", json={"requests": [request_line("a"), request_line("b")]})
    upstream.decide = lambda received: Behaviour(status=500)
    assert await chat(gateway) >= 500
    off = "/admin/routing/provider-routes/embed-1/embed-1-route"
    await gateway.call("PATCH", off, json={"enabled": False})
    async with gateway.database.transaction() as conn:
        await conn.execute(
            "insert into batch_model_state (model, waiting_since, alerted_at) values ('x', now(), now())"
        )

    async def settled() -> Any:
        told = (await look(gateway))["deployment"]
        traffic = told["traffic"]["interactive"]
        known = told["backlog"]["open"] == 1 and told["alerts"]  # read every five seconds
        return told if traffic["requests"] == 2 and told["open_circuits"] and known else None

    told = await until(settled)
    traffic = told["traffic"]["interactive"]
    assert (traffic["errors"], traffic["prompt_tokens"] > 0, told["traffic"]["batch"]["requests"]) == (1, True, 0)
    (circuit,) = told["open_circuits"]
    assert (circuit["model_id"], circuit["route_id"], circuit["state"]) == ("chat-1", "chat-1-route", "open")
    assert (circuit["processes"], circuit["last_error"]) == (1, "status")
    assert told["routes_off"] == [{"model_id": "embed-1", "route_id": "embed-1-route"}]
    assert told["alerts"] == [{"kind": "batch_model_waiting", "model_id": "x"}]
    assert told["resting_models"] == ["chat-1", "embed-1", "org/for-admins"]
    model = next(one for one in told["models"] if one["model_id"] == "chat-1")
    assert (model["queued"], model["batch_in_flight"], model["blocked_reason"]) == (2, 0, "model_cap")
    assert model["oldest_seconds"] > 0
    assert (told["backlog"]["workers"], told["backlog"]["validating"]) == (1, 0)


async def test_what_runs_is_told_by_source(working: TestGateway, upstream: FakeUpstream) -> None:
    upstream.decide = lambda received: Behaviour(latency=60)
    await working.call("POST", "/v1/batches", json={"requests": [request_line("a")]})

    async def runs() -> Any:
        models = (await look(working))["deployment"]["models"]
        return models[0]["batch_in_flight"] == 1

    await until(runs)
    await upstream.arrived.get()
    (worker,) = (await working.call("GET", "/admin/workers")).json["data"]
    assert worker["running"] == 1
    upstream.hurry()

    async def is_done() -> bool:
        told = (await look(working))["deployment"]
        return bool(told["traffic"]["batch"]["requests"] == 1 and told["models"][0]["batch_in_flight"] == 0)

    await until(is_done)


async def test_without_the_database_it_tells_just_that(database_url: str, models: Path) -> None:
    wire = Wire(database_url)
    async with wire.url() as url, start_gateway(url, models, role="api") as gateway:

        async def tells() -> Any:
            """For a second after it was looked up, a key is known without the database too."""
            wire.cut = False
            if (await gateway.call("GET", "/admin/overview")).status != 200:
                return None
            wire.sever()
            answer = await gateway.call("GET", "/admin/overview")
            return answer.json if answer.status == 200 else None

        told = await until(tells)
        assert (told["database_reachable"], told["deployment"]) == (False, None)
        assert told["checks"]["database"] != "ok"
        wire.cut = False
