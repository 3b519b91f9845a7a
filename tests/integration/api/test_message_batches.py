"""Anthropic's own Message Batches where they are switched on, by its SDK unmodified: good and bad requests together,
listing, results, cancelling, deleting; and the same batches through /v1/batches, also once switched off again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, models_file, start_gateway, until

ON = {"BATCH_MESSAGE_BATCHES": "on"}
HELLO: Any = [{"role": "user", "content": "Hello"}]


def asks(custom_id: str, model: str = "chat-1", **params: Any) -> Any:
    return {"custom_id": custom_id, "params": {"model": model, "max_tokens": 50, "messages": HELLO, **params}}


@pytest.fixture
def models(upstream: FakeUpstream, tmp_path: Path) -> Path:
    return models_file(tmp_path, chat_model(upstream.url))


@pytest.fixture
async def gateway(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    async with start_gateway(database_url, models, listen_url=listen_url, environ=ON) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: TestGateway) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=gateway.url, api_key=gateway.admin_key, max_retries=0) as client:
        yield client


async def ended(client: AsyncAnthropic, batch: MessageBatch) -> MessageBatch:
    async def end() -> MessageBatch | None:
        now = await client.messages.batches.retrieve(batch.id)
        assert sum(now.request_counts.model_dump().values()) == 3
        return now if now.processing_status == "ended" else None

    found: MessageBatch = await until(end)
    return found


async def results_of(client: AsyncAnthropic, batch: MessageBatch) -> dict[str, MessageBatchIndividualResponse]:
    return {result.custom_id: result async for result in await client.messages.batches.results(batch.id)}


async def test_good_and_bad_requests_together(
    gateway: TestGateway, client: AsyncAnthropic, upstream: FakeUpstream
) -> None:
    upstream.decide = lambda received: Behaviour(status=400) if received.text == "fail" else None
    failing = asks("c", messages=[{"role": "user", "content": "fail"}])
    batch = await client.messages.batches.create(requests=[asks("a"), asks("b", temperature=1), failing])
    assert (batch.id[:9], batch.results_url) == ("msgbatch_", None)
    done = await ended(client, batch)
    assert done.request_counts.model_dump() == {
        "processing": 0,
        "succeeded": 1,
        "errored": 2,
        "canceled": 0,
        "expired": 0,
    }
    assert done.results_url == f"{gateway.url}/v1/messages/batches/{batch.id}/results"
    results = await results_of(client, batch)
    assert results["a"].result.type == "succeeded"
    assert results["a"].result.message.model == "chat-1"
    assert results["a"].result.message.usage.service_tier == "batch"
    for custom_id, told in (("b", "temperature: not a parameter"), ("c", "told to fail")):
        result = results[custom_id].result
        assert result.type == "errored"
        assert result.error.error.type == "invalid_request_error"
        assert told in result.error.error.message
    common = (await gateway.call("GET", f"/v1/batches/{batch.id}")).json
    assert (common["endpoint"], common["status"]) == ("/v1/messages", "completed")
    lines = (await gateway.call("GET", f"/v1/batches/{batch.id}/results")).json["data"]
    assert [(line["status"], line["error"] and line["error"]["code"]) for line in lines] == [
        ("completed", None),
        ("failed", "invalid_request"),
        ("failed", "invalid_request"),
    ]
    assert "service_tier" not in lines[0]["response"]["body"]["usage"]  # as stored
    deleted = await client.messages.batches.delete(batch.id)
    assert deleted.type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        await client.messages.batches.retrieve(batch.id)


async def test_nothing_but_bad_requests_ends_at_once(gateway: TestGateway, client: AsyncAnthropic) -> None:
    batch = await client.messages.batches.create(
        requests=[asks("a", "none"), asks("b", "none"), asks("c", stream=True)]
    )
    assert batch.processing_status == "ended"
    types = [
        result.result.error.error.type
        for result in (await results_of(client, batch)).values()
        if result.result.type == "errored"
    ]
    assert types == ["not_found_error", "not_found_error", "invalid_request_error"]


async def test_lists_cancels_and_refusals(database_url: str, models: Path) -> None:
    """No worker runs what is created here."""
    async with (
        start_gateway(database_url, models, role="api", environ=ON) as gateway,
        AsyncAnthropic(base_url=f"{gateway.url}/anthropic", api_key=gateway.admin_key, max_retries=0) as client,
    ):
        made = [(await client.messages.batches.create(requests=[asks("a")])).id for _ in range(5)]
        line = {"custom_id": "x", "body": {"model": "chat-1", "messages": HELLO}}
        other = (await gateway.call("POST", "/v1/batches", json={"requests": [line]})).json["id"]
        listed = [batch.id async for batch in client.messages.batches.list(limit=2)]
        assert listed == made[::-1]
        page = await client.messages.batches.list(limit=2, before_id=made[0])
        assert [batch.id for batch in page.data] == [made[2], made[1]]
        assert page.has_more is True
        for bad in ({"after_id": other}, {"limit": 1001}, {"after_id": made[0], "before_id": made[1]}):
            with pytest.raises(anthropic.BadRequestError):
                await client.messages.batches.list(**bad)
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.batches.retrieve(other)
        for early in (client.messages.batches.delete(made[0]), gateway_results(client, made[0])):
            with pytest.raises(anthropic.BadRequestError, match="has not ended"):
                await early
        cancelled = await client.messages.batches.cancel(made[0])
        assert (cancelled.processing_status, cancelled.cancel_initiated_at is None) == ("canceling", False)

        refused: list[tuple[Any, dict[str, str], str]] = [
            ([asks("a b")], {}, "requests[0].custom_id"),
            ([asks("a"), asks("a")], {}, "requests[1].custom_id"),
            ([], {}, "requests"),
            ([{"custom_id": "a"}], {}, "requests[0].params"),
            ([asks("a") | {"method": "POST"}], {}, "requests[0].method"),
            ([asks("a")], {"anthropic-version": "2020-01-01"}, "anthropic-version"),
            ([asks("a")], {"anthropic-beta": "x"}, "anthropic-beta"),
        ]
        for requests, headers, named in refused:
            with pytest.raises(anthropic.BadRequestError, match=re.escape(named)):
                await client.messages.batches.create(requests=requests, extra_headers=headers)
        with pytest.raises(anthropic.BadRequestError, match="metadata: not a member"):
            await client.messages.batches.create(requests=[asks("a")], extra_body={"metadata": {"a": "b"}})
        once = {"Idempotency-Key": "k"}
        first = await client.messages.batches.create(requests=[asks("z")], extra_headers=once)
        assert (await client.messages.batches.create(requests=[asks("z")], extra_headers=once)).id == first.id
        with pytest.raises(anthropic.ConflictError):
            await client.messages.batches.create(requests=[asks("y")], extra_headers=once)
        async with AsyncAnthropic(base_url=gateway.url, api_key="nobody", max_retries=0) as stranger:
            with pytest.raises(anthropic.AuthenticationError):
                await stranger.messages.batches.list()
        key = gateway.admin_key
    async with start_gateway(database_url, models) as off:
        assert (await off.call("GET", f"/v1/messages/batches/{made[1]}", key=key)).status == 410

        async def run() -> bool:
            return bool((await off.call("GET", f"/v1/batches/{made[1]}", key=key)).json["status"] == "completed")

        assert await until(run)  # what was made before keeps running


async def gateway_results(client: AsyncAnthropic, batch_id: str) -> Any:
    return await client.get(f"/v1/messages/batches/{batch_id}/results", cast_to=object)
