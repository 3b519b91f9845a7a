"""Google's SDKs in other versions and languages, and all three vendors' SDKs side by side at one gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic, NotFoundError
from google import genai
from google.genai import types
from openai import AsyncOpenAI
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until
from tests.sdks import run_node, run_python
from tests.vendors import Given, Vendor

# How the SDK extends its HTTP client is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


MODELS = ["models/chat-1", "models/embed-1", "models/tools", "models/paused"]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}


def completion(finish: str, **message: Any) -> dict[str, Any]:
    """An answer of a server of chat completions."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "inside", "choices": [choice]}


@pytest.fixture
async def vendor() -> AsyncIterator[Vendor]:
    """Calls a function, then says that it is mild."""
    async with Vendor() as vendor:
        vendor.script.append(Given(completion("tool_calls", content=None, tool_calls=[CALL])))
        vendor.script.append(Given(completion("stop", content="Mild.")))
        yield vendor


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, upstream: FakeUpstream, vendor: Vendor, tmp_path: Path
) -> AsyncIterator[TestGateway]:
    tools = {"id": "tools", "routes": [{"id": "r", "kind": "openai", "base_url": vendor.url, "model": "inside"}]}
    served = (chat_model(upstream.url), embedding_model(upstream.url), tools, chat_model(name="paused"))
    models = models_file(tmp_path, *served)
    environ = {"BATCH_MESSAGE_BATCHES": "on"}
    async with start_gateway(database_url, models, listen_url=listen_url, environ=environ) as gateway:
        paused = await gateway.call("PATCH", "/admin/batch/models/paused", json={"max_concurrency": 0})
        assert paused.status == 200
        yield gateway


def environ(gateway: TestGateway) -> dict[str, str]:
    told = {"BASE_URL": gateway.url, "API_KEY": gateway.admin_key}
    return told | {"MODEL": "chat-1", "EMBED_MODEL": "embed-1", "TOOL_MODEL": "tools", "PAUSED_MODEL": "paused"}


def check_called(seen: Any, vendor: Vendor) -> None:
    assert seen["called"] == {"name": "weather", "args": {"city": "Oslo"}, "text": "Mild."}
    assert vendor.asked[1].body["messages"][-1] == {"role": "tool", "tool_call_id": "call_1", "content": "mild"}


@pytest.mark.parametrize("sdk", ["@google/genai", "google-genai-1"])
async def test_the_sdk_for_node(gateway: TestGateway, vendor: Vendor, tmp_path: Path, sdk: str) -> None:
    asked = environ(gateway) | {"SDK": sdk, "DOWNLOAD": str(tmp_path / "output.jsonl")}
    seen = json.loads(await asyncio.to_thread(run_node, "gemini.cjs", **asked))
    check_called(seen, vendor)
    assert "Hello" in seen["whole"]["text"]
    assert seen["whole"]["finish"] == "STOP"
    assert seen["whole"]["usage"] > 0
    assert (seen["streamed"], seen["vectors"], seen["missing"]) == (seen["whole"]["text"], 2, 404)
    assert seen["models"] == MODELS
    inline = seen["inline"]
    assert (inline["state"], inline["name"], inline["metadata"]) == ("JOB_STATE_SUCCEEDED", "node", {"key": "k"})
    assert "one" in inline["text"]
    assert seen["file"]["state"] == "JOB_STATE_SUCCEEDED"
    assert (seen["file"]["line"]["key"], seen["embedded"]) == ("x", 2)
    assert "two" in seen["file"]["line"]["response"]["candidates"][0]["content"]["parts"][0]["text"]
    assert (seen["cancelled"], seen["deleted"]) == ("JOB_STATE_CANCELLED", 404)
    assert seen["listed"] == ["file", "node"]
    assert seen["files"] == []  # the batch took its result file along, and the input is deleted


async def test_an_old_sdk(gateway: TestGateway, vendor: Vendor) -> None:
    asked = environ(gateway)
    seen = json.loads(await asyncio.to_thread(run_python, "google-genai==1.52.0", "old_genai.py", **asked))
    assert seen["version"] == "1.52.0"
    check_called(seen, vendor)
    assert "Hello" in seen["whole"]
    assert (seen["streamed"], seen["vectors"], seen["models"]) == (seen["whole"], 2, MODELS)
    assert "one" in seen["inline"]
    assert (seen["state"], seen["key"], seen["embedded"]) == ("JOB_STATE_SUCCEEDED", "x", 2)
    assert (seen["cancelled"], seen["listed"], seen["left"]) == ("JOB_STATE_CANCELLED", 4, 3)


async def test_three_sdks_share_an_account_a_model_and_a_gateway(gateway: TestGateway) -> None:
    key, said = gateway.admin_key, [{"role": "user", "content": "Hello"}]
    ours: Any = AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0)
    theirs: Any = AsyncAnthropic(base_url=gateway.url, api_key=key, max_retries=0)
    google = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=gateway.url)).aio
    async with ours as openai, theirs as anthropic, google as gemini:
        texts = {
            (await openai.chat.completions.create(model="chat-1", messages=said)).choices[0].message.content,
            (await anthropic.messages.create(model="chat-1", max_tokens=500, messages=said)).content[0].text,
            (await gemini.models.generate_content(model="chat-1", contents="Hello")).text,
        }
        assert len(texts) == 1
        line: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
        line |= {"body": {"model": "chat-1", "messages": said}}
        file = await openai.files.create(file=("in.jsonl", json.dumps(line).encode()), purpose="batch")
        made = await openai.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        asked = {"model": "chat-1", "max_tokens": 50, "messages": said}
        message = await anthropic.messages.batches.create(requests=[{"custom_id": "a", "params": asked}])
        job = await gemini.batches.create(model="chat-1", src=[types.InlinedRequest(contents="Hello")])

        async def all_ended() -> bool:
            return (
                (await openai.batches.retrieve(made.id)).status == "completed"
                and (await anthropic.messages.batches.retrieve(message.id)).processing_status == "ended"
                and (await gemini.batches.get(name=job.name or "")).state == types.JobState.JOB_STATE_SUCCEEDED
            )

        await until(all_ended)
        common = [batch.id async for batch in openai.batches.list()]
        assert common == [f"batch_{(job.name or '').removeprefix('batches/')}", message.id, made.id]
        assert [batch.id async for batch in anthropic.messages.batches.list()] == [message.id]
        assert [batch.name async for batch in await gemini.batches.list()] == [job.name]
        assert {model.id async for model in openai.models.list()} == {"chat-1", "embed-1", "tools", "paused"}
        assert {model.id async for model in anthropic.models.list()} == {"chat-1", "embed-1", "tools", "paused"}
        assert {model.name async for model in await gemini.models.list()} == set(MODELS)
        [text] = texts
        output = await openai.files.content((await openai.batches.retrieve(made.id)).output_file_id)
        [result] = [result async for result in await anthropic.messages.batches.results(message.id)]
        mine = (await gemini.batches.get(name=job.name or "")).dest
        [answer] = mine.inlined_responses if mine and mine.inlined_responses else []
        assert answer.response
        assert [
            json.loads(output.text)["response"]["body"]["choices"][0]["message"]["content"],
            result.result.message.content[0].text,
            answer.response.text,
        ] == [text, text, text]
        for batch_id in common:  # each is a batch in the common shape, too
            batch = await openai.batches.retrieve(batch_id)
            assert (batch.status, batch.request_counts.completed) == ("completed", 1)
        for foreign in (common[1], made.id):
            with pytest.raises(genai.errors.ClientError, match="404"):
                await gemini.batches.get(name=f"batches/{foreign.partition('_')[2]}")
        for foreign in (common[0], made.id):
            with pytest.raises(NotFoundError):
                await anthropic.messages.batches.retrieve(foreign)
        files = {one.name async for one in await gemini.files.list()}
        assert f"files/{file.id.removeprefix('file-')}" in files
