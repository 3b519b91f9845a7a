"""Batches of Messages requests, by both input methods: what they must say, what they run under, what comes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic.types import Message
from openai import AsyncOpenAI
from tests.fake_upstream import FakeUpstream
from tests.gateway import Answer, TestGateway, chat_model, models_file, request_line, start_gateway, until
from tests.vendors import Given, Vendor

OLD, NEW = "2023-06-01", "2026-10-21"
VERSION = {"anthropic-version": OLD}
URL = "/v1/messages"
ENDPOINT: Any = URL  # the SDK's types do not know it
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-inside",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 7},
}


def asks(custom_id: str, model: str = "chat-1", **body: Any) -> dict[str, Any]:
    message = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}], **body}
    return {"custom_id": custom_id, "method": "POST", "url": URL, "body": message}


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    async with Vendor() as vendor:
        yield vendor


@pytest.fixture
def models(upstream: FakeUpstream, vendor: Vendor, tmp_path: Path) -> Path:
    route = {"id": "r", "kind": "anthropic", "base_url": vendor.url, "model": "claude-inside"}
    away = {**route, "deployment_type": "provider_api"}
    return models_file(
        tmp_path,
        chat_model(upstream.url),
        {"id": "claude", "max_output_tokens": 100, "routes": [{**route, "deployment_type": "self_hosted"}]},
        {"id": "far", "max_output_tokens": 100, "routes": [away]},
        auto={"auto": ["chat-1"]},
    )


async def create(
    gateway: TestGateway, *lines: Any, headers: dict[str, str] | None = None, key: str = "", **more: Any
) -> Answer:
    sent = VERSION if headers is None else headers
    return await gateway.call("POST", "/v1/batches", headers=sent, key=key, json={"requests": lines, **more})


async def ended(gateway: TestGateway, batch_id: str) -> Any:
    async def completed() -> Any:
        now = (await gateway.call("GET", f"/v1/batches/{batch_id}")).json
        return now if now["status"] in ("completed", "failed") else None

    return await until(completed)


async def test_both_input_methods_end_in_messages(
    database_url: str, listen_url: str, models: Path, vendor: Vendor, upstream: FakeUpstream
) -> None:
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        vendor.script += [Given(ANSWER)] * 2
        lines = [asks("a"), asks("b", "claude"), asks("c", temperature=0.5)]
        made = (await create(gateway, *lines)).json
        assert (made["anthropic_version"], made["endpoint"]) == (OLD, URL)
        done = await ended(gateway, made["id"])
        assert done["request_counts"]["completed"] == 3
        results = (await gateway.call("GET", f"/v1/batches/{made['id']}/results")).json["data"]
        messages = [Message.model_validate(result["response"]["body"], strict=True) for result in results]
        assert [(message.model, message.type) for message in messages] == [
            ("chat-1", "message"),
            ("claude", "message"),
            ("chat-1", "message"),
        ]
        assert results[1]["response"]["body"] == {**ANSWER, "model": "claude"}
        assert vendor.asked[0].headers["anthropic-version"] == OLD
        assert [one.json.get("temperature") for one in upstream.requests if "temperature" in one.json] == [0.5]
        exported = await gateway.call("GET", f"/v1/batches/{made['id']}/output.jsonl")
        assert len(exported.body.splitlines()) == 3

        async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.admin_key) as client:
            file = await client.files.create(
                file=b"".join(msgspec.json.encode(asks(f"l{n}", "claude")) + b"\n" for n in range(1)), purpose="batch"
            )
            batch = await client.batches.create(
                input_file_id=file.id,
                endpoint=ENDPOINT,
                completion_window="24h",
                extra_headers={"anthropic-version": NEW},
            )
            done = await ended(gateway, batch.id)
            assert (done["anthropic_version"], done["request_counts"]["completed"]) == (NEW, 1)
            line = msgspec.json.decode((await client.files.content(done["output_file_id"])).content)
            assert Message.model_validate(line["response"]["body"]).content[0].type == "text"
            assert vendor.asked[-1].headers["anthropic-version"] == NEW

            file = await client.files.create(
                file=msgspec.json.encode(asks("bad", temperature=1)) + b"\n", purpose="batch"
            )
            batch = await client.batches.create(
                input_file_id=file.id,
                endpoint=ENDPOINT,
                completion_window="24h",
                extra_headers={"anthropic-version": NEW},
            )
            problems = (await ended(gateway, batch.id))["errors"]["data"]
            assert [(problem["line"], problem["param"]) for problem in problems] == [(1, "temperature")]


CACHED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
FILE = {"type": "image", "source": {"type": "file", "file_id": "f"}}
SERVER_TOOL = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # What no batch takes, whatever the route.
    ("claude", {"stream": True}, "stream"),
    ("claude", {"anthropic_version": OLD}, "anthropic_version"),
    ("claude", {"betas": ["x"]}, "betas"),
    ("claude", {"mcp_servers": [{"type": "url"}]}, "mcp_servers"),
    ("claude", {"container": "c"}, "container"),
    ("claude", {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}, "tools[0].type"),
    ("claude", {"tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}]}, "tools[0].type"),
    ("claude", {"messages": [{"role": "user", "content": [FILE]}]}, "messages[0].content[0].source"),
    ("claude", {"messages": [{"role": "assistant", "content": [SERVER_TOOL]}]}, "messages[0].content[0].type"),
    ("claude", {"max_tokens": None}, "max_tokens"),
    # What this model's routes cannot carry.
    ("chat-1", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ("chat-1", {"messages": [{"role": "user", "content": [CACHED]}]}, "messages[0].content[0].cache_control"),
    ("chat-1", {"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
    ("no-such", {}, "model"),
    ("auto", {}, "model"),
    ("far", {}, "model"),
]


async def test_one_request_that_cannot_run_as_written_refuses_the_whole(gateway: TestGateway) -> None:
    for model, body, named in REFUSED:
        answer = await create(gateway, asks("good", "claude"), asks("bad", model, **body))
        assert answer.status == 400, (model, body)
        assert answer.error["param"] == f"requests[1].{named}", answer.error
        assert "(custom_id 'bad')" in answer.error["message"]
    narrow = await create(gateway, asks("x", "claude", top_p=0.5), headers={"anthropic-version": NEW})
    assert narrow.error["param"] == "requests[0].top_p"
    carried = [asks("x", "claude", thinking={"type": "adaptive"}), asks("y", "claude", system=[CACHED])]
    assert (await create(gateway, *carried)).status == 200
    assert (await gateway.call("GET", "/v1/batches")).json["data"][1:] == []


async def test_the_version_stands_in_the_header_alone(
    gateway: TestGateway, database_url: str, models: Path, upstream: FakeUpstream
) -> None:
    chat = request_line("c")
    for lines, headers in (
        ([asks("a")], {}),
        ([asks("a")], {"anthropic-version": "2024-01-01"}),
        ([asks("a")], {"anthropic-version": ""}),
        ([chat], VERSION),
        ([asks("a")], VERSION | {"anthropic-beta": "x"}),
        ([chat, asks("a")], {}),
    ):
        answer = await create(gateway, *lines, headers=headers)
        assert answer.status == 400
        assert "anthropic-" in answer.error["message"] or "url" in answer.error["message"]
    in_body = await create(gateway, asks("a"), anthropic_version=OLD)
    assert in_body.error["param"] == "anthropic_version"
    file = (await gateway.upload(msgspec.json.encode(chat) + b"\n")).json["id"]
    body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    assert (await gateway.call("POST", "/v1/batches", headers=VERSION, json=body)).status == 400
    body["endpoint"] = URL
    assert (await gateway.call("POST", "/v1/batches", json=body)).status == 400

    once = VERSION | {"Idempotency-Key": "k"}
    made = (await create(gateway, asks("a"), headers=once)).json
    settings = {"BATCH_ANTHROPIC_VERSIONS": NEW}
    async with start_gateway(database_url, models, role="api", environ=settings) as later:
        key = gateway.admin_key
        again = await create(later, asks("a"), headers=once, key=key)
        assert again.json["id"] == made["id"]  # it replays, though no new batch may name that version
        other = await create(later, asks("a"), headers=once | {"anthropic-version": NEW}, key=key)
        assert other.status == 409
        assert (await create(later, asks("a"))).status == 400
        assert (await create(later, asks("a"), headers={"anthropic-version": NEW})).json["anthropic_version"] == NEW
    assert upstream.requests == []
