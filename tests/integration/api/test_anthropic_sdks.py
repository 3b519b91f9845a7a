"""Anthropic's SDK for Node and an old one for Python, unmodified, against a gateway whose worker runs: with Message
Batches off, which is the default, and on.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import TestGateway, chat_model, models_file, start_gateway
from tests.sdks import run_node, run_python

MODEL = "stand-in"
RAN = {"results": {"a": "succeeded", "b": "succeeded"}, "listed": True, "deleted": "message_batch_deleted"}


def environ(gateway: TestGateway) -> dict[str, str]:
    return {"BASE_URL": gateway.url, "API_KEY": gateway.admin_key, "MODEL": MODEL}


@pytest.mark.parametrize("switched", ["off", "on"])
async def test_the_sdk_for_node_works_unchanged(
    database_url: str, listen_url: str, tmp_path: Path, switched: str
) -> None:
    models = models_file(tmp_path, chat_model(name=MODEL), chat_model(name="other"))
    batches = {"BATCH_MESSAGE_BATCHES": switched}
    async with start_gateway(database_url, models, listen_url=listen_url, environ=batches) as gateway:
        seen: Any = json.loads(await asyncio.to_thread(run_node, "anthropic.cjs", **environ(gateway)))
    assert "Hello" in seen["whole"]["text"]
    assert seen["whole"]["stop"] == "end_turn"
    assert seen["streamed"]["text"] == seen["whole"]["text"]
    assert seen["streamed"]["usage"]["output_tokens"] == seen["whole"]["usage"]["output_tokens"] > 0
    assert (seen["streamed"]["kinds"][0], seen["streamed"]["kinds"][-1]) == ("message_start", "message_stop")
    assert seen["tool"] == "end_turn"
    assert seen["count"] == {"status": 400, "type": "invalid_request_error"}  # the stand-in does not count
    assert seen["missing"] == {"status": 404, "type": "not_found_error"}
    assert seen["models"] == [MODEL, "other"]
    assert seen["batch"] == (RAN if switched == "on" else {"refused": {"status": 410, "type": "invalid_request_error"}})


@pytest.mark.parametrize("switched", ["off", "on"])
async def test_an_old_sdk_for_python_works_unchanged(
    database_url: str, listen_url: str, tmp_path: Path, switched: str
) -> None:
    models = models_file(tmp_path, chat_model(name=MODEL))
    batches = {"BATCH_MESSAGE_BATCHES": switched}
    async with start_gateway(database_url, models, listen_url=listen_url, environ=batches) as gateway:
        asked = environ(gateway)
        seen: Any = json.loads(await asyncio.to_thread(run_python, "anthropic==0.75.0", "old_anthropic.py", **asked))
    assert seen["version"] == "0.75.0"
    assert "Hello" in seen["whole"]
    assert seen["streamed"]["text"] == seen["whole"]
    assert seen["streamed"]["stop"] == "end_turn"
    assert seen["models"] == [MODEL]
    assert seen["batch"] == (RAN if switched == "on" else {"refused": 410})
