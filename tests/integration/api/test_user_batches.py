"""/user/batches: searched and grouped lists, a batch's requests with their answers, its errors; over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role

BATCHES = "/user/batches"


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(upstream.url))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def run(gateway: TestGateway, key: str, requests: list[dict[str, Any]], name: str | None = None) -> str:
    """The id of a batch that has ended."""
    metadata = {} if name is None else {"metadata": {"name": name}}
    created = await gateway.call("POST", "/v1/batches", key=key, json={"requests": requests} | metadata)
    assert created.status == 200, created.body

    async def ended() -> bool:
        batch = await gateway.call("GET", f"/v1/batches/{created.json['id']}", key=key)
        return bool(batch.json["status"] == "completed")

    await until(ended, within=60)
    return str(created.json["id"])


async def listed(gateway: TestGateway, key: str, path: str = BATCHES, **params: str) -> list[Any]:
    answer = await gateway.call("GET", path, key=key, params=params)
    assert answer.status == 200, answer.body
    return list(answer.json["data"])


async def test_batches_are_searched_and_grouped_and_requests_are_shown_to_their_owner(gateway: TestGateway) -> None:
    key, other = await gateway.new_key("ada", Role.INTERNAL), await gateway.new_key("bob", Role.INTERNAL)
    good = await run(gateway, key, [request_line("a", text="What is a river?")], "Rivers")
    bad = await run(
        gateway,
        key,
        [
            request_line("x-1"),
            request_line("x-2", text="behave:status=400"),
            request_line("y", text="behave:status=400"),
        ],
    )

    first, second = await listed(gateway, key)
    assert (first["id"], first["name"], first["input_method"], first["target"]) == (bad, None, "requests", "chat")
    assert (second["id"], second["name"], second["own"], second["content_shown"]) == (good, "Rivers", True, True)
    for params, ids in (
        ({"search": "RIVER"}, [good]),
        ({"search": bad[8:20]}, [bad]),
        ({"search": "lake"}, []),
        ({"group": "completed"}, [good]),
        ({"group": "with_issues"}, [bad]),
        ({"group": "processing"}, []),
        ({"group": "cancelled"}, []),
        ({"limit": "1"}, [bad]),
        ({"after": bad}, [good]),
    ):
        assert [one["id"] for one in await listed(gateway, key, **params)] == ids, params
    assert await listed(gateway, other) == []

    one = await gateway.call("GET", f"{BATCHES}/{good}", key=key)
    assert (one.json["name"], one.json["batch"]["status"]) == ("Rivers", "completed")
    requests = f"{BATCHES}/{bad}/requests"
    assert [item["custom_id"] for item in await listed(gateway, key, requests)] == ["x-1", "x-2", "y"]
    assert [item["custom_id"] for item in await listed(gateway, key, requests, outcome="failed")] == ["x-2", "y"]
    assert [item["custom_id"] for item in await listed(gateway, key, requests, search="X-")] == ["x-1", "x-2"]
    (item,) = await listed(gateway, key, f"{BATCHES}/{good}/requests")
    assert item["request"]["messages"][0]["content"] == "What is a river?"
    assert item["response"]["body"]["object"] == "chat.completion"
    (group,) = await listed(gateway, key, f"{BATCHES}/{bad}/errors")
    assert (group["code"], group["status"], group["requests"], group["custom_id"]) == ("invalid_request", 400, 2, "x-2")


async def test_an_administrator_sees_outcomes_and_prompts_only_where_they_are_kept(gateway: TestGateway) -> None:
    key, other = await gateway.new_key("ada", Role.INTERNAL), await gateway.new_key("bob", Role.INTERNAL)
    batch = await run(gateway, key, [request_line("a", text="a secret")])
    for path in ("", "/requests", "/errors"):
        assert (await gateway.call("GET", f"{BATCHES}/{batch}{path}", key=other)).status == 404
    admins = (await gateway.call("GET", f"{BATCHES}/{batch}")).json
    assert (admins["own"], admins["content_shown"]) == (False, False)
    (item,) = await listed(gateway, gateway.admin_key, f"{BATCHES}/{batch}/requests")
    assert (item["status"], item["request"], item["response"]) == ("completed", None, None)

    kept = await gateway.call("PATCH", "/admin/config", json={"DB_STORE_FULL_CONTENT": True})
    assert kept.status == 200, kept.body
    (item,) = await listed(gateway, gateway.admin_key, f"{BATCHES}/{batch}/requests")
    assert item["request"]["messages"][0]["content"] == "a secret"
    audit = (await gateway.call("GET", "/admin/audit")).json["data"]
    assert audit[0]["action"] == "batch.requests.read"
    assert audit[0]["subject"] == batch


async def test_what_does_not_fit_is_refused_by_name(gateway: TestGateway) -> None:
    key = await gateway.new_key("ada", Role.INTERNAL)
    batch = await run(gateway, key, [request_line("a")])
    for path, name in (
        (f"{BATCHES}?group=odd", "group"),
        (f"{BATCHES}?after=batch_0", "after"),
        (f"{BATCHES}?limit=0", "limit"),
        (f"{BATCHES}/{batch}/requests?outcome=odd", "outcome"),
        (f"{BATCHES}/{batch}/requests?after=7", "after"),
    ):
        answer = await gateway.call("GET", path, key=key)
        assert (answer.status, answer.error["param"]) == (400, name), path
