"""OpenAI's SDKs for Node and old ones for Python, unmodified: everything they do online, and a batch of each target."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway
from tests.sdks import run_node, run_python

OBJECTS: Final = {
    "/v1/chat/completions": "chat.completion",
    "/v1/embeddings": "list",
    "/v1/responses": "response",
    "/v1/messages": "message",
}


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, upstream: FakeUpstream, tmp_path: Path
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(), embedding_model(upstream.url))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


def check(seen: Any) -> None:
    """What each of them must have seen."""
    assert "Hello" in seen["whole"]["text"]
    assert seen["whole"]["tokens"] > 0
    assert (seen["whole"]["finish"], seen["streamed"]) == ("stop", seen["whole"])
    assert seen["vectors"] == [256, 256]
    assert "Hello" in seen["response"]
    assert {endpoint: batch["status"] for endpoint, batch in seen["batches"].items()} == dict.fromkeys(
        OBJECTS, "completed"
    )
    for endpoint, batch in seen["batches"].items():
        assert batch["answers"] == [["a", 200, OBJECTS[endpoint]], ["b", 200, OBJECTS[endpoint]]]
        assert batch.get("version") == ("2023-06-01" if endpoint == "/v1/messages" else None)
        assert (batch["listed"], batch["deleted"]) == (True, True)


def environ(gateway: TestGateway) -> dict[str, str]:
    told = {"BASE_URL": f"{gateway.url}/v1", "API_KEY": gateway.admin_key}
    return told | {"MODEL": "chat-1", "EMBED_MODEL": "embed-1"}


@pytest.mark.parametrize("sdk", ["openai", "openai-4"])
async def test_the_sdk_for_node(gateway: TestGateway, sdk: str) -> None:
    check(json.loads(await asyncio.to_thread(run_node, "openai.cjs", SDK=sdk, **environ(gateway))))


async def test_an_old_sdk_for_python(gateway: TestGateway) -> None:
    seen = json.loads(await asyncio.to_thread(run_python, "openai==1.109.1", "old_openai.py", **environ(gateway)))
    assert seen["version"] == "1.109.1"
    check(seen)
    told = seen["response_stream"]
    assert (told["streamed"], told["kinds"][-1]) == (told["whole"], "response.completed")
