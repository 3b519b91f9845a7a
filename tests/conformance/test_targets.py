"""Every target by both input methods, with requests that succeed and such that fail: one shape of batch and results."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from anthropic.types import Message
from google.genai.types import GenerateContentResponse, SingleEmbedContentResponse
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from tests.conftest import Server, database_at
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway, until

FINAL: Final = {"completed", "failed", "expired", "cancelled"}
BAD: Final = "behave:status=400,message=unfit"


@dataclass(frozen=True)
class Case:
    """A target: its url, a body for a text, what reads an answer, and the headers of its creates."""

    url: str
    body: Callable[[str], dict[str, Any]]
    read: Callable[[Any], Any]
    headers: tuple[tuple[str, str], ...] = ()
    named: str | None = "model"  # where an answer names its model

    def line(self, custom_id: str, text: str) -> dict[str, Any]:
        return {"custom_id": custom_id, "method": "POST", "url": self.url, "body": self.body(text)}


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CASES: Final = {
    "chat": Case(
        "/v1/chat/completions", lambda text: {"model": "chat-1", "messages": said(text)}, ChatCompletion.model_validate
    ),
    "embeddings": Case(
        "/v1/embeddings", lambda text: {"model": "embed-1", "input": text}, CreateEmbeddingResponse.model_validate
    ),
    "responses": Case("/v1/responses", lambda text: {"model": "chat-1", "input": text}, Response.model_validate),
    "responses of the server's own": Case(
        "/v1/responses", lambda text: {"model": "native-1", "input": text}, Response.model_validate
    ),
    "messages": Case(
        "/v1/messages",
        lambda text: {"model": "chat-1", "max_tokens": 50, "messages": said(text)},
        Message.model_validate,
        (("anthropic-version", "2023-06-01"),),
    ),
    "gemini": Case(
        "/v1beta/models:generateContent",
        lambda text: {"model": "chat-1", "contents": [{"role": "user", "parts": [{"text": text}]}]},
        GenerateContentResponse.model_validate,
        named="modelVersion",
    ),
    "gemini_embed": Case(
        "/v1beta/models:embedContent",
        lambda text: {"model": "embed-1", "content": {"parts": [{"text": text}]}},
        lambda body: SingleEmbedContentResponse.model_validate({"embedding": body["embedding"]}),
        named=None,
    ),
}


@pytest.fixture(scope="module")
async def gateway(
    server: Server, template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TestGateway]:
    async with FakeUpstream() as upstream, server.database(template) as name:
        native = chat_model(upstream.url, "native-1")
        native["routes"][0]["speaks"] = ["responses"]
        folder = tmp_path_factory.mktemp("targets")
        models = models_file(folder, chat_model(upstream.url), embedding_model(upstream.url), native)
        listen = database_at(server.listen_url, name)
        async with start_gateway(database_at(server.url, name), models, listen_url=listen) as gateway:
            yield gateway


async def run(gateway: TestGateway, case: Case, method: str, texts: dict[str, str]) -> Any:
    """The batch of these texts by custom_id, once it has ended."""
    lines = [case.line(custom_id, text) for custom_id, text in texts.items()]
    created: dict[str, Any] = {"requests": lines}
    if method == "file":
        file = (await gateway.upload(b"\n".join(json.dumps(line).encode() for line in lines))).json["id"]
        created = {"input_file_id": file, "endpoint": case.url, "completion_window": "24h"}
    made = await gateway.call("POST", "/v1/batches", json=created, headers=dict(case.headers))
    assert made.status == 200, made.body

    async def ended() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{made.json['id']}")).json
        return batch if batch["status"] in FINAL else None

    return await until(ended)


async def lines_of(gateway: TestGateway, file_id: str | None) -> list[Any]:
    if file_id is None:
        return []
    content = (await gateway.call("GET", f"/v1/files/{file_id}/content")).body
    return [json.loads(line) for line in content.decode().splitlines()]


@pytest.mark.parametrize("method", ["direct", "file"])
@pytest.mark.parametrize("target", CASES)
async def test_a_batch_of_good_and_bad_requests(gateway: TestGateway, target: str, method: str) -> None:
    case = CASES[target]
    batch = await run(gateway, case, method, {"good": "Hello", "bad": BAD})
    assert (batch["status"], batch["endpoint"]) == ("completed", case.url)
    assert (batch["request_counts"]["completed"], batch["request_counts"]["failed"]) == (1, 1)
    assert batch["usage"]["input_tokens"] > 0
    page = (await gateway.call("GET", f"/v1/batches/{batch['id']}/results")).json["data"]
    good, bad = sorted(page, key=lambda result: result["status"])
    assert (good["custom_id"], good["status"], good["error"]) == ("good", "completed", None)
    case.read(good["response"]["body"])
    if case.named is not None:
        assert good["response"]["body"][case.named] == case.body("")["model"]
    assert (bad["custom_id"], bad["status"], bad["response"]) == ("bad", "failed", None)
    assert (bad["error"]["code"], bad["error"]["status"]) == ("invalid_request", 400)
    exported = (await gateway.call("GET", f"/v1/batches/{batch['id']}/output.jsonl")).body
    assert len(exported.splitlines()) == 2
    output, errors = await lines_of(gateway, batch["output_file_id"]), await lines_of(gateway, batch["error_file_id"])
    if method == "direct":
        assert (output, errors) == ([], [])
        return
    assert [(line["custom_id"], line["response"]["status_code"], line["error"]) for line in output] == [
        ("good", 200, None)
    ]
    case.read(output[0]["response"]["body"])
    assert [(line["custom_id"], line["response"]["status_code"], line["error"]) for line in errors] == [
        ("bad", 400, None)
    ]


@pytest.mark.parametrize("method", ["direct", "file"])
@pytest.mark.parametrize("target", CASES)
async def test_a_bad_field_refuses_the_batch(gateway: TestGateway, target: str, method: str) -> None:
    case = CASES[target]
    line = case.line("a", "Hello")
    line["body"]["stream"] = True
    if method == "direct":
        refused = await gateway.call("POST", "/v1/batches", json={"requests": [line]}, headers=dict(case.headers))
        field = "requests[0].stream"
        assert (refused.status, refused.error["param"]) == (400, field)
        return
    file = (await gateway.upload(json.dumps(line).encode())).json["id"]
    created = {"input_file_id": file, "endpoint": case.url, "completion_window": "24h"}
    made = await gateway.call("POST", "/v1/batches", json=created, headers=dict(case.headers))

    async def ended() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{made.json['id']}")).json
        return batch if batch["status"] in FINAL else None

    batch = await until(ended)
    (problem,) = batch["errors"]["data"]
    assert (batch["status"], problem["line"], problem["param"]) == ("failed", 1, "stream")
