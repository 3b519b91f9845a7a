"""A real engine behind a real gateway: chat plain and streamed, embeddings, and a batch, on llama.cpp's own server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI
from openai.types.responses import Response
from tests.gateway import (
    TestGateway,
    chat_model,
    embedding_model,
    models_file,
    request_line,
    start_gateway,
    until,
)
from tests.sdks import run_node, run_python

# How Google's SDK extends its HTTP client is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SERVER = Path(__file__).with_name("tiny_llama.py")


@asynccontextmanager
async def engine(*flags: str) -> AsyncIterator[str]:
    """The base URL of a server that runs meanwhile."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SERVER),
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            address = (await process.stdout.readline()).decode().strip()
        assert address.startswith("http://127.0.0.1:")
        yield f"{address}/v1"
    finally:
        process.stdin.close()
        await process.wait()


def at(model: dict[str, Any]) -> dict[str, Any]:
    return model | {"routes": [route | {"kind": "llamacpp"} for route in model["routes"]]}


SCHEMA = {"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"], "additionalProperties": False}


async def check_responses(gateway: TestGateway) -> None:
    """Whole and streamed, and held to a schema: the engine's own endpoint would let that go by."""
    form = {"type": "json_schema", "name": "letters", "schema": SCHEMA, "strict": True}
    asked = {"model": "chat-1", "input": "Hi", "max_output_tokens": 200, "temperature": 0, "text": {"format": form}}
    answer = Response.model_validate((await gateway.call("POST", "/v1/responses", json=asked)).json)
    assert msgspec.json.decode(answer.output_text) == {"a": "x"}
    assert (answer.status, answer.model) == ("completed", "chat-1")
    streamed = await gateway.call("POST", "/v1/responses", json={**asked, "stream": True})
    last = msgspec.json.decode(streamed.body.rpartition(b"data: ")[2])
    assert last["type"] == "response.completed"
    assert msgspec.json.decode(Response.model_validate(last["response"]).output_text) == {"a": "x"}
    short = {"model": "chat-1", "input": "Hi", "max_output_tokens": 3, "temperature": 0}
    cut = (await gateway.call("POST", "/v1/responses", json=short)).json
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


async def test_everything_on_one_engine(database_url: str, listen_url: str, tmp_path: Path) -> None:
    async with engine() as chat, engine("--embedding") as embedding:
        models = models_file(tmp_path, at(chat_model(chat)), at(embedding_model(embedding)))
        async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
            asked = {"model": "chat-1", "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 3}
            answer = (await gateway.call("POST", "/v1/chat/completions", json=asked)).json
            assert answer["model"] == "chat-1"
            assert 0 < answer["usage"]["completion_tokens"] <= 3

            streamed = await gateway.call("POST", "/v1/chat/completions", json={**asked, "stream": True})
            *frames, last = streamed.body.removesuffix(b"\n\n").split(b"\n\n")
            assert last == b"data: [DONE]"
            assert {msgspec.json.decode(frame[6:])["model"] for frame in frames} == {"chat-1"}

            vectors = await gateway.call("POST", "/v1/embeddings", json={"model": "embed-1", "input": ["a", "b"]})
            assert len(vectors.json["data"]) == 2

            await check_responses(gateway)

            lines = [request_line(f"r{n}", max_tokens=3) for n in range(4)]
            batch = (await gateway.call("POST", "/v1/batches", json={"requests": lines})).json

            async def ended() -> Any:
                now = (await gateway.call("GET", f"/v1/batches/{batch['id']}")).json
                return now if now["status"] == "completed" else None

            done = await until(ended, within=60)
            assert done["request_counts"]["completed"] == 4
            assert 0 < done["usage"]["output_tokens"] <= 12


async def test_messages_as_the_engine_speaks_them_and_translated(
    database_url: str, listen_url: str, tmp_path: Path
) -> None:
    async with engine() as url:
        translated = at(chat_model(url))
        native = at(chat_model(url, "native"))
        native["routes"][0]["speaks"] = ["messages"]
        models = models_file(tmp_path, translated, native)
        async with (
            start_gateway(database_url, models, listen_url=listen_url) as gateway,
            AsyncAnthropic(base_url=gateway.url, api_key=gateway.admin_key, max_retries=0) as client,
        ):
            asked: Any = {"max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]}
            for model in ("chat-1", "native"):
                message = await client.messages.create(model=model, **asked)
                assert (message.model, message.stop_reason) == (model, "max_tokens")
            async with client.messages.stream(model="chat-1", **asked) as stream:
                text = "".join([piece async for piece in stream.text_stream])
                final = await stream.get_final_message()
            assert text == "".join(block.text for block in final.content if block.type == "text")
            assert (final.model, final.usage.output_tokens) == ("chat-1", 3)
            assert final.usage.input_tokens > 0
            counted = await client.messages.count_tokens(model="chat-1", messages=asked["messages"])
            assert counted.input_tokens > 0

            lines = [
                {"custom_id": f"r{n}", "url": "/v1/messages", "body": {"model": model, **asked}}
                for n, model in enumerate(("chat-1", "native"))
            ]
            headers = {"anthropic-version": "2026-10-21"}
            made = (await gateway.call("POST", "/v1/batches", headers=headers, json={"requests": lines})).json

            async def ended() -> Any:
                now = (await gateway.call("GET", f"/v1/batches/{made['id']}")).json
                return now if now["status"] == "completed" else None

            assert (await until(ended, within=60))["request_counts"]["completed"] == 2


async def check_google(client: genai.client.AsyncClient) -> None:
    """Whole, streamed, counted, held to a schema, after functions were called; vectors, and a batch."""
    models, short = client.models, types.GenerateContentConfig(max_output_tokens=3, temperature=0)
    whole = await models.generate_content(model="chat-1", contents="Hi", config=short)
    stream = await models.generate_content_stream(model="chat-1", contents="Hi", config=short)
    *_, last = [chunk async for chunk in stream]
    for answer in (whole, last):
        assert answer.candidates
        assert answer.usage_metadata
        assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
        assert answer.usage_metadata.candidates_token_count == 3
    assert last.usage_metadata
    assert last.usage_metadata.cached_content_token_count  # the engine has just read the same prompt
    counted = (await models.count_tokens(model="chat-1", contents="Hi")).total_tokens
    assert whole.usage_metadata
    assert counted == whole.usage_metadata.prompt_token_count

    held = types.GenerateContentConfig(
        max_output_tokens=400, temperature=0, response_mime_type="application/json", response_json_schema=SCHEMA
    )
    assert (await models.generate_content(model="chat-1", contents="Hi", config=held)).parsed == {"a": "x"}

    names = ("Oslo", "Rome")
    calls = [types.Part.from_function_call(name="weather", args={"city": name}) for name in names]
    told = [types.Part.from_function_response(name="weather", response={"output": name}) for name in names]
    turns: Any = [
        types.UserContent("Both?"),
        types.ModelContent(calls),
        types.UserContent(told),
    ]
    weather = types.FunctionDeclaration(name="weather", parameters_json_schema={"type": "object"})
    tools: Any = [types.Tool(function_declarations=[weather])]
    config = types.GenerateContentConfig(max_output_tokens=3, temperature=0, tools=tools)
    after = await models.generate_content(model="chat-1", contents=turns, config=config)
    assert after.candidates
    assert after.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS

    vectors = await models.embed_content(model="embed-1", contents=["a", "b"])
    assert len(vectors.embeddings or []) == 2
    source = [types.InlinedRequest(contents="Hi", config=short) for _ in range(3)]
    made = await client.batches.create(model="chat-1", src=source)

    async def ended() -> Any:
        job = await client.batches.get(name=made.name or "")
        return job if job.done else None

    job = await until(ended, within=60)
    assert job.state == types.JobState.JOB_STATE_SUCCEEDED
    assert all(one.response for one in job.dest.inlined_responses)


async def test_the_sdks_for_node_and_python_on_the_engine(database_url: str, listen_url: str, tmp_path: Path) -> None:
    """What a model of random weights says is noise: what counts is that every call and stream ends as the SDKs want."""
    async with engine() as chat, engine("--embedding") as embedding:
        models = models_file(tmp_path, at(chat_model(chat)), at(embedding_model(embedding)))
        environ = {"BATCH_MESSAGE_BATCHES": "on"}
        async with start_gateway(database_url, models, listen_url=listen_url, environ=environ) as gateway:
            asked = {"API_KEY": gateway.admin_key, "MODEL": "chat-1"}
            ours = asked | {"BASE_URL": f"{gateway.url}/v1", "EMBED_MODEL": "embed-1"}
            theirs = asked | {"BASE_URL": gateway.url}
            runs = [
                asyncio.to_thread(run_node, "responses.cjs", **ours),
                asyncio.to_thread(run_node, "anthropic.cjs", **theirs, SDK="@anthropic-ai/sdk"),
                asyncio.to_thread(run_node, "openai.cjs", **ours, SDK="openai"),
                asyncio.to_thread(run_python, "openai==1.109.1", "old_openai.py", **ours),
                asyncio.to_thread(run_python, "anthropic==0.75.0", "old_anthropic.py", **theirs),
            ]
            responses, messages, *tours, old = [msgspec.json.decode(said) for said in await asyncio.gather(*runs)]
            async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=gateway.admin_key, max_retries=0) as client:
                hello: Any = {"model": "chat-1", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}
                whole = await client.chat.completions.create(**hello)
                pieces = [piece async for piece in await client.chat.completions.create(**hello, stream=True)]
                vectors = await client.embeddings.create(model="embed-1", input=["a", "b"])
            options = types.HttpOptions(base_url=gateway.url)
            async with genai.Client(api_key=gateway.admin_key, http_options=options).aio as google:
                await check_google(google)
    assert (whole.choices[0].finish_reason, pieces[-1].choices[0].finish_reason) == ("length", "length")
    assert len(vectors.data) == 2
    assert responses["kinds"][0] == "response.created"
    assert responses["kinds"][-1] in ("response.completed", "response.incomplete")
    assert [line["response"]["status_code"] for line in responses["batch"]["lines"]] == [200, 200]
    assert (messages["streamed"]["kinds"][0], messages["streamed"]["kinds"][-1]) == ("message_start", "message_stop")
    assert messages["counted"] > 0
    assert messages["batch"]["results"] == {"a": "succeeded", "b": "succeeded"}
    for tour in tours:
        assert (tour["whole"]["finish"], tour["streamed"]["finish"]) in product(("stop", "length"), repeat=2)
        assert len(tour["vectors"]) == 2
        assert {batch["status"] for batch in tour["batches"].values()} == {"completed"}
        assert [len(batch["answers"]) for batch in tour["batches"].values()] == [2, 2, 2, 2]
    assert old["counted"] > 0
    assert old["streamed"]["stop"] in ("end_turn", "max_tokens")
    assert old["batch"]["results"] == {"a": "succeeded", "b": "succeeded"}
