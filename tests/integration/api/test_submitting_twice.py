"""Idempotency-Key over HTTP: what replays, what is refused, and whose the key is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway import Answer, Headers, TestGateway, request_line, start_gateway
from tests.people import create_account, create_key, set_role

from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

KEY: Headers = {"Idempotency-Key": "eval-42 run 1"}
CREATE: dict[str, Any] = {"requests": [request_line("a"), request_line("b")], "metadata": {"x": "1", "y": "2"}}


async def create(gateway: TestGateway, body: Any = CREATE, *, key: str = "", headers: Headers = KEY) -> Answer:
    return await gateway.call("POST", "/v1/batches", key=key, headers=headers, json=body)


async def count(gateway: TestGateway) -> int:
    async with gateway.database.connection() as conn:
        return int(await conn.fetchval("select count(*) from batch_jobs"))


async def test_the_same_request_answers_the_same_batch(gateway: TestGateway) -> None:
    first = await create(gateway)
    assert first.status == 200
    turned = {"metadata": {"y": "2", "x": "1"}, "requests": CREATE["requests"]}
    spaced = msgspec.json.format(msgspec.json.encode(turned), indent=4)
    again = await gateway.call("POST", "/v1/batches", headers=KEY, data=spaced)
    assert (again.status, again.json) == (200, first.json)
    await gateway.call("POST", f"/v1/batches/{first.json['id']}/cancel")
    replay = await create(gateway)
    assert (replay.json["id"], replay.json["status"]) == (first.json["id"], "cancelling")
    assert await count(gateway) == 1


@pytest.mark.parametrize("body", [CREATE | {"metadata": {}}, {"requests": "nonsense"}, {"input_file_id": "file-1"}])
async def test_another_request_with_the_key_is_a_conflict_that_no_sdk_repeats(gateway: TestGateway, body: Any) -> None:
    await create(gateway)
    answer = await create(gateway, body)
    assert answer.status == 409
    assert answer.error["code"] == "idempotency_conflict"
    assert answer.headers["x-should-retry"] == "false"
    assert await count(gateway) == 1


async def test_a_deleted_batch_is_gone(gateway: TestGateway) -> None:
    batch = (await create(gateway)).json
    await gateway.call("DELETE", f"/v1/batches/{batch['id']}")
    for body in (CREATE, CREATE | {"metadata": {}}):
        assert (await create(gateway, body)).status == 410
    assert await count(gateway) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "é"])
async def test_a_malformed_key_is_refused(gateway: TestGateway, key: str) -> None:
    answer = await create(gateway, headers={"Idempotency-Key": key})
    assert answer.status == 400
    assert answer.error["param"] == "Idempotency-Key"
    assert await count(gateway) == 0


async def test_the_longest_key_will_do(gateway: TestGateway) -> None:
    headers = {"Idempotency-Key": "~" * 255}
    assert (await create(gateway, headers=headers)).json == (await create(gateway, headers=headers)).json


async def test_a_key_is_the_accounts_and_a_replay_does_not_move_the_batch(gateway: TestGateway) -> None:
    now = SystemClock().now()
    account = await create_account(gateway.database, "owner", Role.INTERNAL, now)
    first, first_secret = await create_key(gateway.database, account.id, now=now)
    _, second_secret = await create_key(gateway.database, account.id, now=now)
    batch = (await create(gateway, key=first_secret)).json
    assert (await create(gateway, key=second_secret)).json["id"] == batch["id"]
    async with gateway.database.connection() as conn:
        assert await conn.fetchval("select key_id from batch_jobs where id = $1", batch["id"]) == first.id
    other = await gateway.new_key("other", Role.INTERNAL)
    theirs = await create(gateway, key=other)
    assert theirs.status == 200
    assert theirs.json["id"] != batch["id"]


async def test_it_replays_whatever_stands_in_the_way_of_a_new_one(
    gateway: TestGateway, database_url: str, models: Path
) -> None:
    now = SystemClock().now()
    account = await create_account(gateway.database, "owner", Role.INTERNAL, now)
    _, secret = await create_key(gateway.database, account.id, now=now)
    batch = (await create(gateway, key=secret)).json
    async with gateway.database.transaction() as conn:
        await conn.execute("update accounts set daily_quota_usd = 0 where id = $1", account.id)
    assert (await create(gateway, key=secret)).json["id"] == batch["id"]
    assert (await create(gateway, key=secret, headers={"Idempotency-Key": "new"})).status == 429
    await set_role(gateway.database, account.id, Role.FREE)
    limits = {"BATCH_MAX_ACTIVE_PER_USER": "1", "BATCH_MAX_REQUESTS": "1"}
    async with start_gateway(database_url, models, role="api", environ=limits) as strict:
        assert (await create(strict, key=secret)).json["id"] == batch["id"]
        assert (await create(strict, key=secret, headers={"Idempotency-Key": "new"})).status == 403
    assert await count(gateway) == 1


async def test_a_file_batch_replays_when_its_file_is_gone(gateway: TestGateway) -> None:
    file_id = (await gateway.upload(msgspec.json.encode(request_line("a")))).json["id"]
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    first = await create(gateway, body)
    assert first.status == 200
    assert (await gateway.call("DELETE", f"/v1/files/{file_id}")).status == 200
    assert (await create(gateway, body)).json == first.json
    assert (await create(gateway, body, headers={"Idempotency-Key": "new"})).status == 400


async def test_a_refused_create_can_be_put_right_under_its_key(gateway: TestGateway) -> None:
    wrong = CREATE | {"requests": [request_line("a", "no-such-model")]}
    answer = await create(gateway, wrong)
    assert answer.status == 400
    assert answer.error["message"].startswith("requests[0] (custom_id 'a')")
    assert (await create(gateway)).status == 200


async def test_two_processes_make_one_batch_of_two_creates_at_once(
    gateway: TestGateway, database_url: str, models: Path
) -> None:
    async with start_gateway(database_url, models, role="api") as second:
        key = gateway.admin_key
        answers = await asyncio.gather(*(create(each, key=key) for each in (gateway, second) for _ in range(4)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert await count(gateway) == 1


async def test_turned_off_batches_hide_replays_too(gateway: TestGateway, database_url: str, models: Path) -> None:
    await create(gateway)
    async with start_gateway(database_url, models, role="api", environ={"BATCH_ENABLED": "off"}) as off:
        assert (await create(off, key=gateway.admin_key)).status == 404
    assert (await create(gateway, key="ebb-unknown")).status == 401
