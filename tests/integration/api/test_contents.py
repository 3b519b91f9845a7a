"""What interactive requests say is kept only while DB_STORE_FULL_CONTENT is on, and read by those who may."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until

from ebbtide.accounts.roles import Role
from ebbtide.records.content import LONGEST_BYTES

CHAT = "/v1/chat/completions"


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, upstream: FakeUpstream, tmp_path: Path
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(upstream.url), embedding_model(upstream.url))
    async with start_gateway(database_url, models, role="api", listen_url=listen_url) as gateway:
        yield gateway


async def switch(gateway: TestGateway, on: bool) -> None:
    assert (await gateway.call("PATCH", "/admin/config", json={"DB_STORE_FULL_CONTENT": on})).status == 200


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "chat-1", "messages": [{"role": "user", "content": text}]} | more


async def logged(gateway: TestGateway, key: str, count: int) -> list[Any]:
    """An account's rows, oldest first, once there are so many."""

    async def there() -> list[Any] | None:
        rows = (await gateway.call("GET", "/user/requests", key=key)).json["data"]
        return rows[::-1] if len(rows) == count else None

    return list(await until(there))


async def contents(gateway: TestGateway) -> int:
    async with gateway.database.connection() as conn:
        return int(await conn.fetchval("select count(*) from api_log_contents"))


async def test_nothing_is_kept_while_it_is_off_and_the_switch_counts_when_the_request_is_sent(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    key = await gateway.new_key("someone", Role.PRO)
    assert (await gateway.call("POST", CHAT, key=key, json=chat("never kept"))).status == 200
    upstream.script.append(Behaviour("stream-stall"))
    headers = {"Authorization": f"Bearer {key}"}
    async with gateway.http.post(gateway.url + CHAT, json=chat("off", stream=True), headers=headers) as response:
        await response.content.readany()
        await switch(gateway, True)  # while it runs
    assert (await gateway.call("POST", CHAT, key=key, json=chat("kept"))).status == 200
    rows = await logged(gateway, key, 3)
    assert await contents(gateway) == 1
    details = [(await gateway.call("GET", f"/user/requests/{row['id']}", key=key)).json for row in rows]
    assert [one["content"] is None for one in details] == [True, True, False]
    assert msgspec.json.decode(details[2]["content"]["request"]) == chat("kept")

    await switch(gateway, False)
    hidden = await gateway.call("GET", f"/user/requests/{rows[2]['id']}", key=key)
    assert (hidden.status, hidden.json["content"]) == (200, None)
    assert (await gateway.call("GET", f"/admin/recent-requests/{rows[2]['id']}")).json["content"] is None


async def test_what_is_kept_is_what_was_said(gateway: TestGateway, upstream: FakeUpstream) -> None:
    await switch(gateway, True)
    key = await gateway.new_key("someone", Role.PRO)
    whole = await gateway.call("POST", CHAT, key=key, json=chat("plain"))
    streamed = await gateway.call("POST", CHAT, key=key, json=chat("streamed", stream=True))
    assert (
        await gateway.call("POST", "/v1/embeddings", key=key, json={"model": "embed-1", "input": "x"})
    ).status == 200
    upstream.script.append(Behaviour(status=400))
    assert (await gateway.call("POST", CHAT, key=key, json=chat("refused"))).status == 400
    long = msgspec.json.encode(chat("y" * (LONGEST_BYTES + 5)))
    assert (await gateway.call("POST", CHAT, key=key, data=io.BytesIO(long))).status == 200
    rows = await logged(gateway, key, 5)
    found = [(await gateway.call("GET", f"/user/requests/{row['id']}", key=key)).json["content"] for row in rows]
    plain, stream, embedding, refused, cut = found
    assert plain["answer"] == whole.body.decode()
    told = msgspec.json.decode(stream["answer"])
    pieces = [msgspec.json.decode(line[6:]) for line in streamed.body.split(b"\n") if line.startswith(b"data: {")]
    said = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces if piece["choices"])
    assert said
    assert told["choices"][0]["message"]["content"] == said
    assert (told["object"], told["choices"][0]["finish_reason"]) == ("chat.completion", "stop")
    assert msgspec.json.decode(embedding["answer"])["data"]
    assert (msgspec.json.decode(refused["request"]), refused["answer"]) == (chat("refused"), "")
    assert [one["truncated"] for one in found] == [False, False, False, False, True]
    assert len(cut["request"]) == LONGEST_BYTES
    assert cut["request_bytes"] == len(long)


async def test_streams_of_messages_and_responses_are_put_together(gateway: TestGateway) -> None:
    await switch(gateway, True)
    key = await gateway.new_key("someone", Role.PRO)
    bodies: dict[str, dict[str, Any]] = {
        "/v1/messages": {"max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]},
        "/v1/responses": {"input": "Hello"},
    }
    for path, body in bodies.items():
        asked = {"model": "chat-1", "stream": True} | body
        told = await gateway.call("POST", path, key=key, json=asked, headers={"anthropic-version": "2023-06-01"})
        assert told.status == 200, told.body
    rows = await logged(gateway, key, 2)
    found = [(await gateway.call("GET", f"/user/requests/{row['id']}", key=key)).json["content"] for row in rows]
    message, response = (msgspec.json.decode(one["answer"]) for one in found)
    assert message["content"][0]["text"]
    assert message["stop_reason"] == "end_turn"
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == message["content"][0]["text"]


async def test_only_its_account_and_administrators_read_it_and_their_looks_are_audited(gateway: TestGateway) -> None:
    await switch(gateway, True)
    key, other = await gateway.new_key("someone", Role.PRO), await gateway.new_key("other", Role.INTERNAL)
    assert (await gateway.call("POST", CHAT, key=key, json=chat("a secret"))).status == 200
    [row] = await logged(gateway, key, 1)
    assert "route" not in row
    own, admins = f"/user/requests/{row['id']}", f"/admin/recent-requests/{row['id']}"
    assert (await gateway.call("GET", own, key=other)).status == 404
    assert (await gateway.call("GET", "/user/requests", key=other)).json["data"] == []
    assert (await gateway.call("GET", own)).status == 404  # an administrator's own requests are its own too
    assert (await gateway.call("GET", admins, key=key)).status == 403
    for missing in ("log_1_1", "log_x", "nothing", "log_99999999999999999_1"):
        assert (await gateway.call("GET", f"/admin/recent-requests/{missing}")).status == 404
    assert (await gateway.call("GET", own, key=key)).json["content"] is not None

    async def looks() -> list[Any]:
        entries = (await gateway.call("GET", "/admin/audit")).json["data"]
        return [entry for entry in entries if entry["action"] == "request.content.read"]

    assert await looks() == []
    detail = (await gateway.call("GET", admins)).json
    assert (detail["account_name"], detail["route"]) == ("someone", "chat-1-route")
    assert "a secret" in detail["content"]["request"]
    [look] = await looks()
    assert (look["subject"], look["account_id"]) == (row["id"], detail["account_id"])


async def test_answers_of_many_at_once_are_kept_apart(gateway: TestGateway) -> None:
    await switch(gateway, True)
    key = await gateway.new_key("someone", Role.ADMIN)
    await asyncio.gather(
        *(gateway.call("POST", CHAT, key=key, json=chat(f"n{n}", stream=n % 2 == 1)) for n in range(20))
    )
    rows = await logged(gateway, key, 20)
    found = [(await gateway.call("GET", f"/user/requests/{row['id']}", key=key)).json["content"] for row in rows]
    texts = {msgspec.json.decode(one["request"])["messages"][0]["content"] for one in found}
    assert texts == {f"n{n}" for n in range(20)}
    assert all(msgspec.json.decode(one["answer"])["choices"][0]["message"]["content"] for one in found)
