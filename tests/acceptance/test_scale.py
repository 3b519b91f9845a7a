"""Batches as large as the limits allow, from one create and from one file, through a running gateway to the end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.domain import books
from tests.gateway import chat_model, models_file
from tests.processes import GatewayProcess, Processes

from ebbtide.storage.pool import Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

COUNT = 50_000
MIB = 1 << 20
ROOM = {"BATCH_MODEL_CONCURRENCY": "256", "BATCH_ROLE_CONCURRENCY_ADMIN": "0"}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Answered by the stand-in: what is measured against is the gateway, not an upstream."""
    return models_file(tmp_path, chat_model(pricing={"input": 1.0, "output": 2.0}))


def lines(size: int, end: bytes) -> Iterator[bytes]:
    """COUNT requests which with their `end`s have exactly `size` bytes in all."""
    body = '{"model":"chat-1","messages":[{"role":"user","content":"%s"}]}'
    line = '{"custom_id":"request-%05d","method":"POST","url":"/v1/chat/completions","body":' + body + "}"
    each, more = divmod(size - COUNT * (len(line % (0, "")) + len(end)), COUNT)
    for number in range(COUNT):
        yield (line % (number, "x" * (each + (number < more)))).encode() + end


async def check_whole(gateway: GatewayProcess, database: Database, batch_id: str, output: bytes) -> None:
    """Counts equal to a recount, and every request once in the output."""
    batch = await gateway.batch(batch_id)
    assert await books(database) == {}
    async with database.connection() as conn:
        states = await conn.fetch("select state, count(*) as items from batch_items group by 1")
    assert [(row["state"], row["items"]) for row in states] == [("completed", COUNT)]
    assert batch["status"] == "completed"
    counts: Any = batch["request_counts"]
    assert (counts["total"], counts["completed"], counts["failed"]) == (COUNT, COUNT, 0)
    assert batch["cost_usd"] > 0
    rows = output.splitlines()
    assert len(rows) == COUNT
    assert {json.loads(row)["custom_id"] for row in rows} == {f"request-{number:05d}" for number in range(COUNT)}


async def test_fifty_thousand_direct_requests_in_one_create(processes: Processes, database: Database) -> None:
    gateway = await processes.start(**ROOM)
    head, tail = b'{"requests":[', b"]}"
    body = head + b"".join(lines(32 * MIB - len(head) - len(tail) + 1, b","))[:-1] + tail
    assert len(body) == 32 * MIB
    answer = await gateway.call("POST", "/v1/batches", data=io.BytesIO(body))
    assert answer.status == 200, answer.body
    assert answer.json["request_counts"]["total"] == COUNT
    batch_id = answer.json["id"]
    await gateway.ended(batch_id, within=150)
    output = await gateway.call("GET", f"/v1/batches/{batch_id}/output.jsonl")
    await check_whole(gateway, database, batch_id, output.body)


async def test_a_file_of_32_mib(processes: Processes, database: Database) -> None:
    gateway = await processes.start(**ROOM)
    content = b"".join(lines(32 * MIB, b"\n"))
    assert len(content) == 32 * MIB
    form = aiohttp.FormData({"purpose": "batch"})
    form.add_field("file", io.BytesIO(content), filename="large.jsonl")
    file = await gateway.call("POST", "/v1/files", data=form)
    assert file.status == 200, file.body
    assert file.json["bytes"] == 32 * MIB
    create = {"input_file_id": file.json["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answer = await gateway.call("POST", "/v1/batches", json=create)
    assert answer.status == 200, answer.body
    batch = await gateway.ended(answer.json["id"], within=150)
    output = await gateway.call("GET", f"/v1/files/{batch['output_file_id']}/content")
    await check_whole(gateway, database, batch["id"], output.body)
    assert batch["error_file_id"] is None
    returned = await gateway.call("GET", f"/v1/files/{file.json['id']}/content")
    assert returned.body == content
