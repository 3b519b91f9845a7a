"""Anthropic's SDK for Node and an old one for Python, unmodified, against a gateway whose worker runs: with Message
Batches off, which is the default, and on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import TestGateway, chat_model, models_file, start_gateway
from tests.sdks import run_node, run_python
from tests.vendors import Given, Vendor, sse

MODEL = "stand-in"
RAN = {"results": {"a": "succeeded", "b": "succeeded"}, "listed": True, "deleted": "message_batch_deleted"}


CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
CALLED = {"stop": ["tool_use", "tool_use"], "calls": [["weather", {"city": "Oslo"}]] * 2, "text": "Mild."}


def said(finish: str, **message: Any) -> Given:
    """An answer of a server of chat completions."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Given({"id": "c", "object": "chat.completion", "created": 1, "model": "inside", "choices": [choice]})


def streamed() -> Given:
    """The call of a tool, as a stream of such a server."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "inside"}
    deltas = [{"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}, {}]
    choices = [{"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"} for delta in deltas]
    return Given(stream=[*sse(*({**head, "choices": [choice]} for choice in choices)), b"data: [DONE]\n\n"])


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    """Calls a tool, says that it is mild, and calls the tool again, as a stream."""
    async with Vendor() as vendor:
        vendor.script += [
            said("tool_calls", content=None, tool_calls=[CALL]),
            said("stop", content="Mild."),
            streamed(),
        ]
        yield vendor


def tool_model(vendor: Vendor) -> dict[str, Any]:
    return {"id": "tools", "routes": [{"id": "r", "kind": "openai", "base_url": vendor.url, "model": "inside"}]}


def environ(gateway: TestGateway) -> dict[str, str]:
    told = {"BASE_URL": gateway.url, "API_KEY": gateway.admin_key}
    return told | {"MODEL": MODEL, "TOOL_MODEL": "tools"}


def check_called(seen: Any, vendor: Vendor) -> None:
    assert seen["called"] == CALLED
    assert vendor.asked[1].body["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "mild"}


@pytest.mark.parametrize("switched", ["off", "on"])
@pytest.mark.parametrize("sdk", ["@anthropic-ai/sdk", "anthropic-0"])
async def test_the_sdk_for_node_works_unchanged(
    database_url: str, listen_url: str, tmp_path: Path, vendor: Vendor, sdk: str, switched: str
) -> None:
    models = models_file(tmp_path, chat_model(name=MODEL), tool_model(vendor))
    batches = {"BATCH_MESSAGE_BATCHES": switched}
    async with start_gateway(database_url, models, listen_url=listen_url, environ=batches) as gateway:
        seen: Any = json.loads(await asyncio.to_thread(run_node, "anthropic.cjs", SDK=sdk, **environ(gateway)))
    assert "Hello" in seen["whole"]["text"]
    assert seen["whole"]["stop"] == "end_turn"
    assert seen["streamed"]["text"] == seen["whole"]["text"]
    assert seen["streamed"]["usage"]["output_tokens"] == seen["whole"]["usage"]["output_tokens"] > 0
    assert (seen["streamed"]["kinds"][0], seen["streamed"]["kinds"][-1]) == ("message_start", "message_stop")
    assert seen["tool"] == "end_turn"
    check_called(seen, vendor)
    assert seen["counted"] == seen["whole"]["usage"]["input_tokens"] == 2
    assert seen["missing"] == {"status": 404, "type": "not_found_error"}
    assert seen["models"] == [MODEL, "tools"]
    assert seen["batch"] == (RAN if switched == "on" else {"refused": {"status": 410, "type": "invalid_request_error"}})


@pytest.mark.parametrize("switched", ["off", "on"])
async def test_an_old_sdk_for_python_works_unchanged(
    database_url: str, listen_url: str, tmp_path: Path, vendor: Vendor, switched: str
) -> None:
    models = models_file(tmp_path, chat_model(name=MODEL), tool_model(vendor))
    batches = {"BATCH_MESSAGE_BATCHES": switched}
    async with start_gateway(database_url, models, listen_url=listen_url, environ=batches) as gateway:
        asked = environ(gateway)
        seen: Any = json.loads(await asyncio.to_thread(run_python, "anthropic==0.75.0", "old_anthropic.py", **asked))
    assert seen["version"] == "0.75.0"
    assert "Hello" in seen["whole"]
    assert seen["streamed"]["text"] == seen["whole"]
    assert seen["streamed"]["stop"] == "end_turn"
    check_called(seen, vendor)
    assert seen["counted"] == 2
    assert seen["models"] == [MODEL, "tools"]
    assert seen["batch"] == (RAN if switched == "on" else {"refused": 410})
