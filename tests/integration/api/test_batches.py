"""Batches over HTTP: the object at each stage, pages, exports, who may see what. One test runs the worker, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import Answer, TestGateway, request_line, start_gateway, until

from ebbtide.accounts.roles import Role

FINAL = {"completed", "failed", "expired", "cancelled"}


async def create(gateway: TestGateway, *lines: dict[str, Any], key: str = "", **more: Any) -> Answer:
    return await gateway.call("POST", "/v1/batches", key=key, json={"requests": list(lines)} | more)


async def created(gateway: TestGateway, *lines: dict[str, Any], **more: Any) -> Any:
    answer = await create(gateway, *(lines or (request_line("a"),)), **more)
    assert answer.status == 200, answer.body
    return answer.json


async def test_a_new_batch_is_the_object_of_the_specification(gateway: TestGateway) -> None:
    batch = await created(gateway, request_line("a"), request_line("b", "short"), metadata={"project": "eval-42"})
    assert batch | {"id": "", "created_at": 0, "expires_at": 0} == {
        "id": "",
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "model": "chat-1",
        "errors": None,
        "input_file_id": None,
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": 0,
        "in_progress_at": None,
        "expires_at": 0,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 2, "completed": 0, "failed": 0, "cancelled": 0, "expired": 0},
        "metadata": {"project": "eval-42"},
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
        "anthropic_version": None,
        "cost_usd": 0.0,
        "cost_unknown_attempts": 0,
        "results_expires_at": None,
        "error": None,
        "estimated_completion_at": None,
        "finishes_in_time": None,
        "blocked_reason": None,
    }
    assert batch["expires_at"] - batch["created_at"] == 86_400
    assert (await gateway.call("GET", f"/v1/batches/{batch['id']}")).json == batch


async def test_a_refused_batch_names_the_request_and_stores_nothing(gateway: TestGateway) -> None:
    answer = await create(gateway, request_line("q-1"), request_line("q-2", "no-such-model"))
    assert answer.status == 400
    assert answer.error["message"] == "requests[1] (custom_id 'q-2'): Model 'no-such-model' not found"
    assert answer.error["code"] == 400
    assert (await gateway.call("GET", "/v1/batches")).json["data"] == []


async def test_a_batch_is_never_created_on_behalf_of_others(gateway: TestGateway) -> None:
    for name in ("X-On-Behalf-Of", "x-on-behalf-of"):
        answer = await gateway.call("POST", "/v1/batches", json={"requests": []}, headers={name: "someone"})
        assert answer.status == 400
        assert "X-On-Behalf-Of" in answer.error["message"]


async def test_creating_needs_the_role_and_the_rest_does_not(
    database_url: str, models: Path, gateway: TestGateway
) -> None:
    key = await gateway.new_key("pro", Role.PRO)
    assert (await create(gateway, request_line("a"), key=key)).status == 403
    async with start_gateway(database_url, models, role="api", environ={"BATCH_MIN_ROLE": "pro"}) as lenient:
        batch = (await create(lenient, request_line("a"), key=key)).json["id"]
    assert (await gateway.call("GET", f"/v1/batches/{batch}", key=key)).status == 200
    assert (await gateway.call("GET", f"/v1/batches/{batch}/results", key=key)).status == 200
    assert (await gateway.call("POST", f"/v1/batches/{batch}/cancel", key=key)).status == 200
    assert (await gateway.call("DELETE", f"/v1/batches/{batch}", key=key)).status == 200


async def test_another_accounts_batch_does_not_exist_except_for_administrators(gateway: TestGateway) -> None:
    owner, other = await gateway.new_key("owner", Role.INTERNAL), await gateway.new_key("other", Role.INTERNAL)
    batch = (await create(gateway, request_line("a"), key=owner)).json["id"]
    routes = [("GET", ""), ("GET", "/results"), ("GET", "/output.jsonl"), ("POST", "/cancel"), ("DELETE", "")]
    for method, path in routes:
        theirs = await gateway.call(method, f"/v1/batches/{batch}{path}", key=other)
        nobodys = await gateway.call(method, f"/v1/batches/batch_{'0' * 32}{path}", key=other)
        assert theirs.status == nobodys.status == 404, path
        assert theirs.error["message"].replace(batch, "") == nobodys.error["message"].replace("batch_" + "0" * 32, "")
    assert (await gateway.call("GET", "/v1/batches", key=other)).json["data"] == []
    assert (await gateway.call("GET", "/v1/batches", params={"after": batch}, key=other)).status == 400
    statuses = [(await gateway.call(method, f"/v1/batches/{batch}{path}")).status for method, path in routes]
    assert statuses == [200, 200, 409, 200, 200]


async def test_sdk_calls_without_a_body_do(gateway: TestGateway) -> None:
    batch = (await created(gateway))["id"]
    headers = {"Content-Type": "application/json", "Content-Length": "0"}
    cancelled = await gateway.call("POST", f"/v1/batches/{batch}/cancel", headers=headers)
    assert cancelled.status == 200
    assert cancelled.json["status"] in ("cancelling", "cancelled")
    assert cancelled.json["cancelling_at"] is not None
    deleted = await gateway.call("DELETE", f"/v1/batches/{batch}", headers={"Content-Type": "application/json"})
    assert deleted.json == {"id": batch, "object": "batch.deleted", "deleted": True}
    assert (await gateway.call("GET", f"/v1/batches/{batch}")).status == 404


async def test_pages_of_batches(gateway: TestGateway) -> None:
    made = [(await created(gateway, request_line(f"r{number}")))["id"] for number in range(3)]
    page = (await gateway.call("GET", "/v1/batches", params={"limit": "2"})).json
    assert [batch["id"] for batch in page["data"]] == [made[2], made[1]]
    assert (page["object"], page["first_id"], page["last_id"], page["has_more"]) == ("list", made[2], made[1], True)
    rest = (await gateway.call("GET", "/v1/batches", params={"limit": "1", "after": made[1]})).json
    assert ([batch["id"] for batch in rest["data"]], rest["has_more"]) == ([made[0]], False)


async def test_results_can_be_paged_before_anything_ran(gateway: TestGateway) -> None:
    names = ["a", 'line\nbreak "quoted"', "\U0001f600\u2028", "x" * 512]
    batch = (await created(gateway, *(request_line(name) for name in names)))["id"]
    path = f"/v1/batches/{batch}/results"
    first = (await gateway.call("GET", path, params={"limit": "3"})).json
    assert [item["custom_id"] for item in first["data"]] == names[:3]
    assert first["data"][0] | {"id": ""} == {
        "id": "",
        "custom_id": "a",
        "status": "queued",
        "response": None,
        "error": None,
    }
    assert (first["first_id"], first["last_id"]) == (first["data"][0]["id"], first["data"][2]["id"])
    assert first["has_more"] is True
    last = (await gateway.call("GET", path, params={"limit": "1", "after": first["last_id"]})).json
    assert [item["custom_id"] for item in last["data"]] == names[3:]
    assert last["has_more"] is False


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("", "limit", "0"),
        ("", "limit", "101"),
        ("", "after", "batch_nowhere"),
        ("/results", "limit", "1001"),
        ("/results", "limit", "-1"),
        ("/results", "after", "batch_req_"),
        ("/results", "after", "batch_req_1x"),
        ("/results", "after", "7"),
        ("/results", "after", "\0"),
    ],
)
async def test_a_bad_page_is_named(gateway: TestGateway, path: str, name: str, value: str) -> None:
    batch = (await created(gateway))["id"]
    target = f"/v1/batches/{batch}/results" if path else "/v1/batches"
    answer = await gateway.call("GET", target, params={name: value})
    assert answer.status == 400
    assert answer.error["param"] == name


async def test_an_export_waits_for_the_end(gateway: TestGateway) -> None:
    batch = (await created(gateway))["id"]
    for method in ("GET", "HEAD"):
        answer = await gateway.call(method, f"/v1/batches/{batch}/output.jsonl")
        assert answer.status == 409
        assert answer.headers["x-should-retry"] == "false"


async def test_too_many_unfinished_batches_are_a_429(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_MAX_ACTIVE_PER_USER": "1"}) as gateway:
        await created(gateway)
        answer = await create(gateway, request_line("a"))
        assert answer.status == 429
        assert answer.error["type"] == "rate_limit_error"


@pytest.fixture
async def working(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def ended(gateway: TestGateway, batch_id: str) -> Any:
    async def final() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{batch_id}")).json
        return batch if batch["status"] in FINAL else None

    return await until(final)


async def test_direct_requests_to_their_results(working: TestGateway, upstream: FakeUpstream) -> None:
    upstream.decide = lambda request: Behaviour(status=400, message="no") if "bad" in request.text else None
    lines = [request_line("good", "short"), request_line("bad", text="bad")]
    batch = await ended(working, (await created(working, *lines))["id"])
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1, "cancelled": 0, "expired": 0}
    assert batch["usage"]["total_tokens"] > 0
    assert batch["output_file_id"] is None
    good, bad = (await working.call("GET", f"/v1/batches/{batch['id']}/results")).json["data"]
    assert (good["status"], good["response"]["status_code"], good["error"]) == ("completed", 200, None)
    assert good["response"]["body"]["model"] == "short"
    assert (bad["status"], bad["response"]) == ("failed", None)
    assert bad["error"] | {"message": ""} == {"code": "invalid_request", "message": "", "status": 400}
    export = await working.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")
    assert export.headers["content-type"] == "application/jsonl"
    told = [msgspec.json.decode(line) for line in export.body.splitlines()]
    assert [line["custom_id"] for line in told] == ["good", "bad"]
    assert told[1]["response"]["status_code"] == 400
    head = await working.call("HEAD", f"/v1/batches/{batch['id']}/output.jsonl")
    assert (head.status, head.body) == (200, b"")


async def test_a_file_to_its_result_files(working: TestGateway) -> None:
    lines = b"\n".join(msgspec.json.encode(request_line(f"r{number}")) for number in range(3))
    file = (await working.upload(lines)).json["id"]
    body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = (await working.call("POST", "/v1/batches", json=body)).json
    assert (batch["status"], batch["input_file_id"]) == ("validating", file)
    batch = await ended(working, batch["id"])
    assert (batch["status"], batch["error_file_id"]) == ("completed", None)
    content = await working.call("GET", f"/v1/files/{batch['output_file_id']}/content")
    assert sorted(msgspec.json.decode(line)["custom_id"] for line in content.body.splitlines()) == ["r0", "r1", "r2"]
    again = await working.call("GET", f"/v1/files/{batch['output_file_id']}/content")
    assert (again.body, again.headers["etag"]) == (content.body, content.headers["etag"])
    assert (await working.call("GET", f"/v1/files/{batch['output_file_id']}")).json["purpose"] == "batch_output"


async def test_a_file_with_bad_lines_fails_and_lists_them(working: TestGateway) -> None:
    lines = b"nonsense\n" + msgspec.json.encode(request_line("a", "nowhere"))
    file = (await working.upload(lines)).json["id"]
    body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = await ended(working, (await working.call("POST", "/v1/batches", json=body)).json["id"])
    assert batch["status"] == "failed"
    assert batch["errors"]["object"] == "list"
    assert [problem["line"] for problem in batch["errors"]["data"]] == [1, 2]
    assert batch["errors"]["data"][0]["code"] == "invalid_json_line"
