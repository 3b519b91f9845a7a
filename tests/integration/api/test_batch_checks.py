"""/user/batch-checks and an ended batch's unfinished requests as an input file: before a batch and after one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role

CHECKS = "/user/batch-checks"


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(upstream.url, aliases=["fast"]), embedding_model(upstream.url))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


def jsonl(*lines: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def test_lines_are_checked_and_nothing_is_stored_or_run(gateway: TestGateway, upstream: FakeUpstream) -> None:
    key = await gateway.new_key("ada", Role.INTERNAL)
    good = jsonl(request_line("a", "fast"), request_line("b", "chat-1"))
    answer = await gateway.call("POST", CHECKS, key=key, data=good)
    assert answer.status == 200, answer.body
    told = answer.json
    assert (told["requests"], told["model"], told["problem_count"]) == (2, "chat-1", 0)
    assert told["sha256"] == hashlib.sha256(good).hexdigest()
    assert told["key_id"] == (await gateway.call("GET", "/user", key=key)).json["key_id"]

    bad = jsonl(
        request_line("a"), request_line("a"), request_line("c", "nobody's"), request_line("d", temperature="hot")
    )
    told = (await gateway.call("POST", CHECKS, key=key, data=bad)).json
    assert [(one["line"], one["code"], one["param"]) for one in told["problems"]] == [
        (2, "duplicate_custom_id", "custom_id"),
        (3, "model_not_found", "model"),
        (4, "invalid_request", "temperature"),
    ]
    assert told["model"] is None
    wrong = (await gateway.call("POST", f"{CHECKS}?endpoint=/v1/embeddings", key=key, data=good)).json
    assert {one["code"] for one in wrong["problems"]} == {"url_mismatch"}
    assert upstream.count == 0
    assert (await gateway.call("GET", "/v1/files", key=key)).json["data"] == []
    assert (await gateway.call("GET", "/v1/batches", key=key)).json["data"] == []
    lower = await gateway.new_key("bob", Role.FREE)
    assert (await gateway.call("POST", CHECKS, key=lower, data=good)).status == 403


async def test_what_did_not_succeed_is_exported_as_a_file_that_can_be_submitted(gateway: TestGateway) -> None:
    key, other = await gateway.new_key("ada", Role.INTERNAL), await gateway.new_key("bob", Role.INTERNAL)
    bare = request_line("bare", text="behave:status=400")
    del bare["url"], bare["method"]
    requests = [request_line("good"), request_line("bad", text="behave:status=400"), bare]
    created = await gateway.call("POST", "/v1/batches", key=key, json={"requests": requests})
    path = f"/user/batches/{created.json['id']}/unfinished.jsonl"

    async def ended() -> bool:
        batch = await gateway.call("GET", f"/v1/batches/{created.json['id']}", key=key)
        return bool(batch.json["status"] == "completed")

    await until(ended, within=60)
    answer = await gateway.call("GET", path, key=key)
    assert answer.status == 200, answer.body
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert lines == [requests[1], {**bare, "method": "POST", "url": "/v1/chat/completions"}]
    checked = await gateway.call("POST", CHECKS, key=key, data=answer.body)
    assert checked.json["problem_count"] == 0
    assert (await gateway.call("GET", path, key=other)).status == 404
