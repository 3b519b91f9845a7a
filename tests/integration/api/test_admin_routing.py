"""/admin/routing: which routes batch work may use, as administrators choose it, down to what waits in a batch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role

CHOICES = "/admin/routing/provider-route-batch"


def route(url: str, name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": "vllm", "model": "m", "base_url": url, "api_key": "sk-of-the-upstream"} | more


def write_models(folder: Path, url: str, *, weight: float = 1) -> Path:
    return models_file(
        folder,
        {
            "id": "chat-1",
            "aliases": ["short"],
            "routes": [
                route(url, "own", weight=weight),
                route(url, "rented", deployment_type="provider_api", weight=0.001),
            ],
        },
        {"id": "org/cloud", "routes": [route(url, "eu/west", deployment_type="provider_api")]},
        embedding_model(url),
        chat_model(name="built-in"),
    )


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[TestGateway]:
    models = write_models(tmp_path, upstream.url)
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def choose(gateway: TestGateway, route: str, allowed: bool | None) -> Any:
    answer = await gateway.call("PATCH", f"{CHOICES}/{route}", json={"batch_allowed": allowed})
    assert answer.status == 200, answer.body
    return answer.json


async def create(gateway: TestGateway, model: str = "chat-1", count: int = 1, text: str = "Hello") -> Any:
    lines = [request_line(f"r{n}", model, text) for n in range(count)]
    return await gateway.call("POST", "/v1/batches", json={"requests": lines})


async def ended(gateway: TestGateway, batch_id: str) -> Any:
    async def final() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{batch_id}")).json
        return batch if batch["status"] in ("completed", "failed", "expired", "cancelled") else None

    return await until(final)


async def test_every_route_is_listed_without_its_key_or_url(gateway: TestGateway, upstream: FakeUpstream) -> None:
    answer = await gateway.call("GET", "/admin/routing/provider-routes")
    assert answer.status == 200
    assert b"sk-of" not in answer.body
    assert str(upstream.port).encode() not in answer.body
    told = {(r["model_id"], r["route_id"]): r for r in answer.json["data"]}
    assert told["chat-1", "own"] == {
        "object": "provider_route",
        "model_id": "chat-1",
        "model_type": "chat",
        "route_id": "own",
        "kind": "vllm",
        "host": "127.0.0.1",
        "enabled": True,
        "weight": 1.0,
        "weight_default": 1.0,
        "weight_choice": None,
        "deployment_type": "auto",
        "batch_allowed": True,
        "batch_allowed_default": True,
        "batch_allowed_choice": None,
    }
    assert [told["chat-1", "rented"][f"batch_allowed{of}"] for of in ("", "_default", "_choice")] == [
        False,
        False,
        None,
    ]
    assert (told["built-in", "built-in-route"]["host"], told["embed-1", "embed-1-route"]["model_type"]) == (
        None,
        "embedding",
    )


async def test_a_choice_is_in_force_at_once_by_id_or_alias(gateway: TestGateway) -> None:
    changed = await choose(gateway, "short/rented", True)
    assert (changed["model_id"], changed["route_id"]) == ("chat-1", "rented")
    assert [changed[f"batch_allowed{of}"] for of in ("", "_default", "_choice")] == [True, False, True]
    changed = await choose(gateway, "chat-1/rented", None)
    assert [changed[f"batch_allowed{of}"] for of in ("", "_default", "_choice")] == [False, False, None]
    audit = (await gateway.call("GET", "/admin/audit")).json["data"]
    assert [entry["action"] for entry in audit[:2]] == ["route.batch_choice"] * 2
    assert (audit[0]["subject"], audit[0]["detail"]) == ("chat-1/rented", {"old": True, "new": None})


async def test_ids_may_hold_slashes(gateway: TestGateway) -> None:
    changed = await choose(gateway, "org/cloud/eu/west", True)
    assert (changed["model_id"], changed["route_id"]) == ("org/cloud", "eu/west")
    assert (await create(gateway, "org/cloud")).status == 200


async def test_a_cloud_model_is_refused_at_submission_until_it_is_allowed(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    refused = await create(gateway, "org/cloud")
    assert (refused.status, refused.error["code"]) == (400, "batch_route_unavailable")
    await choose(gateway, "org/cloud/eu/west", True)
    accepted = await create(gateway, "org/cloud", 3)
    assert (await ended(gateway, accepted.json["id"]))["request_counts"]["completed"] == 3
    assert upstream.count == 3
    await choose(gateway, "org/cloud/eu/west", None)
    assert (await create(gateway, "org/cloud")).error["code"] == "batch_route_unavailable"


async def test_what_waits_fails_when_the_last_route_is_forbidden_and_may_come_again_after(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    assert (await gateway.call("PATCH", "/admin/config", json={"BATCH_MODEL_CONCURRENCY": 0})).status == 200
    batch = (await create(gateway, count=5)).json["id"]
    await choose(gateway, "chat-1/own", False)
    assert (await create(gateway)).error["code"] == "batch_route_unavailable"
    assert (await gateway.call("PATCH", "/admin/config", json={"BATCH_MODEL_CONCURRENCY": 8})).status == 200
    done = await ended(gateway, batch)
    assert (done["status"], done["request_counts"]["failed"]) == ("completed", 5)
    results = (await gateway.call("GET", f"/v1/batches/{batch}/results")).json["data"]
    assert {(r["error"]["code"], r["error"]["status"]) for r in results} == {("batch_route_unavailable", 400)}
    assert (done["cost_unknown_attempts"], upstream.count) == (0, 0)

    await choose(gateway, "chat-1/own", None)
    again = (await create(gateway, count=5)).json["id"]
    assert (await ended(gateway, again))["request_counts"]["completed"] == 5


async def test_a_route_of_weight_zero_makes_requests_wait(
    gateway: TestGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    write_models(tmp_path, upstream.url, weight=0)

    async def is_read() -> bool:
        routes = (await gateway.call("GET", "/admin/routing/provider-routes")).json["data"]
        return bool(routes[0]["weight"] == 0)

    await until(is_read)
    batch = (await create(gateway, count=2)).json["id"]

    async def waits() -> bool:
        models = (await gateway.call("GET", "/admin/batch/models")).json["data"]
        (mine,) = [model for model in models if model["model_id"] == "chat-1"]
        return bool(mine["blocked_reason"] == "no_route_up" and mine["queued"] == 2)

    await until(waits)
    assert upstream.count == 0
    write_models(tmp_path, upstream.url, weight=2)
    assert (await ended(gateway, batch))["request_counts"]["completed"] == 2


async def test_batches_stay_on_their_routes_and_interactive_requests_do_not_notice(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    """The allowed route fails: the batch waits there rather than go to the other one, which interactive ones use."""
    await choose(gateway, "chat-1/own", False)
    body = {"model": "chat-1", "messages": [{"role": "user", "content": "Hello"}]}
    assert (await gateway.call("POST", "/v1/chat/completions", json=body)).status == 200
    await choose(gateway, "chat-1/own", True)
    upstream.decide = lambda received: Behaviour(status=429) if received.text == "batch" else None
    batch = (await create(gateway, text="batch")).json["id"]

    async def tried() -> bool:
        return any(received.text == "batch" for received in upstream.requests)

    await until(tried)
    assert sum(received.text == "batch" for received in upstream.requests) == 1
    assert (await gateway.call("GET", f"/v1/batches/{batch}")).json["status"] == "in_progress"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("chat-1/own", b'{"batch_allowed": "yes"}', 400),
        ("chat-1/own", b"{}", 400),
        ("chat-1/own", b"[]", 400),
        ("chat-1/own", b"", 400),
        ("chat-1/own", b'{"batch_allowed": true, "weight": 2}', 400),
        ("embed-1/embed-1-route", b'{"batch_allowed": true}', 400),
        ("chat-1/nowhere", b'{"batch_allowed": true}', 404),
        ("nobody/own", b'{"batch_allowed": true}', 404),
        ("chat-1", b'{"batch_allowed": true}', 404),
    ],
)
async def test_what_is_no_choice_is_refused(gateway: TestGateway, path: str, body: bytes, status: int) -> None:
    answer = await gateway.call("PATCH", f"{CHOICES}/{path}", data=body)
    assert answer.status == status
    assert (await gateway.call("GET", "/admin/audit")).json["data"] == []


async def test_only_administrators_see_or_choose(gateway: TestGateway) -> None:
    key = await gateway.new_key("worker", Role.INTERNAL)
    for method, path in (("GET", "/admin/routing/provider-routes"), ("PATCH", f"{CHOICES}/chat-1/own")):
        assert (await gateway.call(method, path, key=key, data=b"{}")).status == 403
        assert (await gateway.call(method, path, key=None, data=b"{}")).status == 401


# Switches and weights


async def change(gateway: TestGateway, route: str, **wanted: Any) -> Any:
    answer = await gateway.call("PATCH", f"/admin/routing/provider-routes/{route}", json=wanted)
    assert answer.status == 200, answer.body
    return answer.json


async def chat(gateway: TestGateway, model: str = "chat-1") -> int:
    body = {"model": model, "messages": [{"role": "user", "content": "Hello"}]}
    return (await gateway.call("POST", "/v1/chat/completions", json=body)).status


async def test_a_route_that_is_switched_off_gets_no_call_of_anyone(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    off = await change(gateway, "short/own", enabled=False)
    assert (off["route_id"], off["enabled"], off["weight"]) == ("own", False, 1.0)
    assert await chat(gateway) == 200, "the other route serves"
    await change(gateway, "chat-1/rented", enabled=False)
    calls = upstream.count
    assert await chat(gateway) == 503
    batch = (await create(gateway)).json["id"]

    async def waits() -> bool:
        models = (await gateway.call("GET", "/admin/batch/models")).json["data"]
        return any(m["blocked_reason"] == "no_route_up" and m["queued"] == 1 for m in models)

    await until(waits)
    assert upstream.count == calls
    on = await change(gateway, "chat-1/own", enabled=None)
    assert on["enabled"] is True
    assert (await ended(gateway, batch))["request_counts"]["completed"] == 1
    audit = (await gateway.call("GET", "/admin/audit?action=route.change")).json["data"]
    assert [(entry["subject"], entry["detail"]) for entry in audit] == [
        ("chat-1/own", {"old": {"enabled": False}, "new": {"enabled": None}}),
        ("chat-1/rented", {"old": {"enabled": None}, "new": {"enabled": False}}),
        ("chat-1/own", {"old": {"enabled": None}, "new": {"enabled": False}}),
    ]


async def test_a_weight_of_an_administrators_replaces_the_configured_one(
    gateway: TestGateway, tmp_path: Path, upstream: FakeUpstream
) -> None:
    heavy = await change(gateway, "chat-1/rented", weight=40)
    assert [heavy[f"weight{of}"] for of in ("", "_default", "_choice")] == [40.0, 0.001, 40.0]
    none = await change(gateway, "chat-1/own", weight=0)
    assert (none["weight"], none["enabled"], none["batch_allowed"]) == (0.0, True, True)
    write_models(tmp_path, upstream.url, weight=3)

    async def is_read() -> bool:
        route = (await gateway.call("GET", "/admin/models/chat-1")).json["routes"][0]["route"]
        return bool(route["weight_default"] == 3 and route["weight"] == 0)

    await until(is_read)
    reset = await change(gateway, "chat-1/own", weight=None)
    assert [reset[f"weight{of}"] for of in ("", "_default", "_choice")] == [3.0, 3.0, None]
    async with gateway.database.connection() as conn:
        rows = await conn.fetch("select route_id, enabled, weight from provider_route_overrides")
    assert [tuple(row) for row in rows] == [("rented", None, 40.0)]


async def test_another_process_follows(
    gateway: TestGateway, database_url: str, listen_url: str, tmp_path: Path
) -> None:
    models = tmp_path / "models.yaml"
    async with start_gateway(database_url, models, role="api", listen_url=listen_url) as other:
        await change(gateway, "chat-1/own", enabled=False)
        await change(gateway, "chat-1/rented", enabled=False)

        async def follows() -> bool:
            return await chat(other) == 503

        await until(follows, within=10)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("chat-1/own", b'{"weight": -1}', 400),
        ("chat-1/own", b'{"weight": 1e300}', 400),
        ("chat-1/own", b'{"weight": "2"}', 400),
        ("chat-1/own", b'{"enabled": 1}', 400),
        ("chat-1/own", b'{"batch_allowed": true}', 400),
        ("chat-1/own", b"[]", 400),
        ("chat-1/nowhere", b"{}", 404),
    ],
)
async def test_what_is_no_change_of_a_route_is_refused(
    gateway: TestGateway, path: str, body: bytes, status: int
) -> None:
    answer = await gateway.call("PATCH", f"/admin/routing/provider-routes/{path}", data=body)
    assert answer.status == status
    assert (await gateway.call("GET", "/admin/audit")).json["data"] == []


# Models with the health of their routes


async def test_models_tell_their_routes_and_how_they_stand(gateway: TestGateway, upstream: FakeUpstream) -> None:
    upstream.decide = lambda received: Behaviour(status=500)
    await change(gateway, "chat-1/rented", enabled=False)
    await gateway.call("PATCH", "/admin/config", json={"ROUTING_BREAKER_FAILURES": 1, "ROUTING_BREAKER_SECONDS": 60})
    assert await chat(gateway) >= 500

    async def is_told() -> Any:
        model = (await gateway.call("GET", "/admin/models/short")).json
        return model if model["routes"][0]["health"] else None

    model = await until(is_told)
    assert (model["id"], model["aliases"], model["type"], model["min_role"]) == ("chat-1", ["short"], "chat", "free")
    own, rented = model["routes"]
    assert (own["upstream_model"], own["api_keys"], own["reserve"], rented["health"]) == ("m", 1, False, None)
    (process,) = own["health"]["processes"]
    assert (own["health"]["state"], process["state"], process["last_error"]) == ("open", "open", "status")
    assert process["opened_at"] is not None
    answer = await gateway.call("GET", "/admin/models")
    assert [one["id"] for one in answer.json["data"]] == ["chat-1", "org/cloud", "embed-1", "built-in"]
    assert b"sk-of" not in answer.body
    assert str(upstream.port).encode() not in answer.body
    assert (await gateway.call("GET", "/admin/models/org/cloud")).json["id"] == "org/cloud"
    assert (await gateway.call("GET", "/admin/models/nobody")).status == 404
