"""POST /v1/batches/{id}/retry: what did not succeed becomes a new batch, by today's rules."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import (
    TestGateway,
    chat_model,
    embedding_model,
    models_file,
    request_line,
    start_gateway,
    until,
)

from ebbtide.accounts.roles import Role
from ebbtide.batches import closing
from ebbtide.clock import SystemClock

FINAL = {"completed", "failed", "expired", "cancelled"}
BAD = "behave:status=400"


@pytest.fixture
async def working(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def ended(gateway: TestGateway, batch_id: str, key: str = "") -> Any:
    async def final() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{batch_id}", key=key)).json
        return batch if batch["status"] in FINAL else None

    return await until(final)


async def create(gateway: TestGateway, *lines: Any, key: str = "", **more: Any) -> Any:
    body = io.BytesIO(msgspec.json.encode({"requests": list(lines)} | more))
    answer = await gateway.call("POST", "/v1/batches", key=key, data=body)
    assert answer.status == 200, answer.body
    return answer.json


async def outcomes(gateway: TestGateway, batch_id: str) -> dict[str, str]:
    page = (await gateway.call("GET", f"/v1/batches/{batch_id}/results?limit=1000")).json
    return {result["custom_id"]: result["status"] for result in page["data"]}


async def test_failed_requests_run_again(working: TestGateway, upstream: FakeUpstream) -> None:
    lines = [
        request_line("good"),
        request_line("bad \U0001f600\n", "short", f"{BAD} one"),
        request_line("too bad", text=f"{BAD} two", seed=7, future={"deep": [1.50, None]}),
    ]
    old = await ended(working, (await create(working, *lines, metadata={"project": "p"}))["id"])
    assert old["request_counts"]["failed"] == 2
    answer = await working.call("POST", f"/v1/batches/{old['id']}/retry")
    assert answer.status == 200
    assert answer.json["metadata"] == {"project": "p", "retry_of": old["id"]}
    assert (answer.json["input_file_id"], answer.json["request_counts"]["total"]) == (None, 2)
    new = await ended(working, answer.json["id"])
    assert new["request_counts"]["failed"] == 2
    assert await outcomes(working, new["id"]) == {"bad \U0001f600\n": "failed", "too bad": "failed"}
    sent = [request.json for request in upstream.requests if request.text == f"{BAD} two"]
    assert sent[0] == sent[1]
    assert sent[1]["future"] == {"deep": [1.5, None]}


async def test_a_file_batch_gives_a_direct_one_though_its_file_was_deleted(working: TestGateway) -> None:
    lines = [request_line(f"r{n}", text=BAD if n % 2 else "Hi") for n in range(6)]
    content = b"\xef\xbb\xbf" + b"\r\n".join(msgspec.json.encode(line) for line in lines)
    file_id = (await working.upload(content)).json["id"]
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    old = await ended(working, (await working.call("POST", "/v1/batches", json=body)).json["id"])
    assert old["status"] == "completed"
    await working.call("DELETE", f"/v1/files/{file_id}")
    answer = await working.call("POST", f"/v1/batches/{old['id']}/retry")
    assert answer.status == 200
    assert answer.json["metadata"] == {"retry_of": old["id"]}
    await ended(working, answer.json["id"])
    assert await outcomes(working, answer.json["id"]) == {"r1": "failed", "r3": "failed", "r5": "failed"}


async def test_cancelled_requests_of_many_chunks_keep_their_order(gateway: TestGateway) -> None:
    lines = [request_line(f"r{n}", text="x" * 40_000) for n in range(60)]
    old = await create(gateway, *lines)
    assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry")).status == 409  # it has not ended
    await _finish_cancelling(gateway, old["id"])
    new = (await gateway.call("POST", f"/v1/batches/{old['id']}/retry")).json
    assert list(await outcomes(gateway, new["id"])) == [f"r{n}" for n in range(60)]
    async with gateway.database.connection() as conn:
        chunks = await conn.fetchval("select max(chunk) from batch_items where batch_no = 2")
    assert chunks >= 1


async def test_there_may_be_nothing_to_retry(working: TestGateway) -> None:
    old = await ended(working, (await create(working, request_line("a")))["id"])
    answer = await working.call("POST", f"/v1/batches/{old['id']}/retry")
    assert (answer.status, "nothing to retry" in answer.error["message"]) == (400, True)


async def test_a_request_that_todays_rules_refuse_refuses_the_whole_and_is_named(
    gateway: TestGateway, upstream: FakeUpstream, tmp_path: Path
) -> None:
    old = await create(gateway, request_line("a"), request_line("b", "short"), request_line("c"))
    await _finish_cancelling(gateway, old["id"])
    # The file is taken up again when it changes; the alias is no longer in it.
    models_file(tmp_path, chat_model(upstream.url), embedding_model(upstream.url))

    async def refused() -> Any:
        answer = await gateway.call("POST", f"/v1/batches/{old['id']}/retry")
        return answer if answer.status == 400 else None

    answer = await until(refused)
    assert answer.error["message"] == "The request with custom_id 'b': Model 'short' not found"


async def test_the_limits_of_a_create_hold(gateway: TestGateway, database_url: str, models: Path) -> None:
    key = gateway.admin_key
    old = await create(gateway, request_line("a", text="x" * 700_000), request_line("b", text="y" * 700_000))
    await _finish_cancelling(gateway, old["id"])
    for name, value, status in (
        ("BATCH_MAX_REQUESTS", "1", 400),
        ("BATCH_MAX_BODY_MB", "1", 413),
        ("BATCH_MAX_QUEUED_REQUESTS_PER_USER", "1", 429),
    ):
        async with start_gateway(database_url, models, role="api", environ={name: value}) as strict:
            assert (await strict.call("POST", f"/v1/batches/{old['id']}/retry", key=key)).status == status, name


async def test_another_accounts_batch_cannot_be_retried_not_even_by_an_administrator(gateway: TestGateway) -> None:
    key, other = await gateway.new_key("one", Role.INTERNAL), await gateway.new_key("two", Role.INTERNAL)
    old = await create(gateway, request_line("a"), key=key)
    await _finish_cancelling(gateway, old["id"])
    for asking in (other, gateway.admin_key):
        assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry", key=asking)).status == 404
    assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry", key=key)).status == 200


async def test_a_role_that_was_lowered_may_not(gateway: TestGateway) -> None:
    key = await gateway.new_key("one", Role.INTERNAL)
    old = await create(gateway, request_line("a"), key=key)
    await _finish_cancelling(gateway, old["id"])
    async with gateway.database.transaction() as conn:
        await conn.execute("update accounts set role = 'free' where name = 'one'")

    async def forbidden() -> bool:
        return (await gateway.call("POST", f"/v1/batches/{old['id']}/retry", key=key)).status == 403

    await until(forbidden)


async def test_a_retry_is_safe_to_repeat_with_a_key(gateway: TestGateway) -> None:
    old = await create(gateway, request_line("a"), metadata={"retry_of": "batch_before"})
    await _finish_cancelling(gateway, old["id"])
    on_behalf = {"X-On-Behalf-Of": "somebody"}
    assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry", headers=on_behalf)).status == 400
    headers = {"Idempotency-Key": "once"}
    first = await gateway.call("POST", f"/v1/batches/{old['id']}/retry", headers=headers)
    assert first.json["metadata"] == {"retry_of": old["id"]}
    await gateway.call("DELETE", f"/v1/batches/{old['id']}")
    assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry", headers=headers)).json == first.json
    other = await gateway.call("POST", f"/v1/batches/{first.json['id']}/retry", headers=headers)
    assert (other.status, other.error["code"]) == (409, "idempotency_conflict")


async def test_full_metadata_stay_as_they_are(gateway: TestGateway) -> None:
    full = {f"k{n}": "v" for n in range(16)}
    old = await create(gateway, request_line("a"), metadata=full)
    await _finish_cancelling(gateway, old["id"])
    assert (await gateway.call("POST", f"/v1/batches/{old['id']}/retry")).json["metadata"] == full


async def _finish_cancelling(gateway: TestGateway, batch_id: str) -> None:
    """Cancel a batch and do what a worker does to the end of it."""
    await gateway.call("POST", f"/v1/batches/{batch_id}/cancel")
    async with gateway.database.connection() as conn:
        batch_no = await conn.fetchval("select no from batch_jobs where id = $1", batch_id)
    while await closing.close_batch(gateway.database, batch_no, SystemClock().now()):
        pass
