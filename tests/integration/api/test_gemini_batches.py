"""Gemini's batches and files, by Google's own SDK unmodified and by hand: inline and from a file, every trap of the
wire, and the same batches in the common shape.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types
from tests.fake_upstream import FakeUpstream
from tests.gateway import Answer, TestGateway, chat_model, embedding_model, models_file, start_gateway, until

from ebbtide.accounts.roles import Role

# How the SDK extends its HTTP client is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

CREATE = "/v1beta/models/chat-1:batchGenerateContent"
UPLOAD = "/upload/v1beta/files"
BAD = "behave:status=400,message=unfit"


@pytest.fixture
def models(upstream: FakeUpstream, tmp_path: Path) -> Path:
    return models_file(tmp_path, chat_model(upstream.url, aliases=["short"]), embedding_model(upstream.url))


@pytest.fixture
async def running(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    """With a worker."""
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


@pytest.fixture
async def client(running: TestGateway) -> AsyncIterator[genai.client.AsyncClient]:
    options = types.HttpOptions(base_url=running.url)
    async with genai.Client(api_key=running.admin_key, http_options=options).aio as client:
        yield client


def request_of(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def inline(*texts: str, **more: Any) -> dict[str, Any]:
    requests = [{"request": request_of(text), "metadata": {"key": f"k-{text}", "n": {"of": [1]}}} for text in texts]
    return {"batch": {"displayName": "mine", "inputConfig": {"requests": {"requests": requests}}, **more}}


async def ask(gateway: TestGateway, method: str, path: str, **more: Any) -> Answer:
    headers = {"x-goog-api-key": gateway.admin_key, **more.pop("headers", {})}
    return await gateway.call(method, path, key=None, headers=headers, **more)


async def ended(gateway: TestGateway, name: str) -> Any:
    async def done() -> Any:
        told = (await ask(gateway, "GET", f"/v1beta/{name}")).json
        return told if told["done"] else None

    return await until(done)


async def done_job(client: genai.client.AsyncClient, name: str) -> types.BatchJob:
    async def done() -> Any:
        job = await client.batches.get(name=name)
        return job if job.done else None

    job: types.BatchJob = await until(done)
    return job


async def test_inline_requests_come_back_in_order_with_their_metadata(running: TestGateway) -> None:
    texts = [f"text {number}" for number in range(40)]
    texts[7] = BAD
    made = (await ask(running, "POST", CREATE, json=inline(*texts, priority="-3"))).json
    assert made["metadata"]["state"] in {"BATCH_STATE_PENDING", "BATCH_STATE_RUNNING"}
    told = await ended(running, made["name"])
    metadata = told["metadata"]
    assert metadata["@type"].endswith(".GenerateContentBatch")
    assert (metadata["state"], metadata["displayName"]) == ("BATCH_STATE_SUCCEEDED", "mine")
    assert (metadata["model"], metadata["priority"]) == ("models/chat-1", "-3")
    assert metadata["batchStats"] == {
        "requestCount": "40",
        "successfulRequestCount": "39",
        "failedRequestCount": "1",
        "pendingRequestCount": "0",
    }
    answers = metadata["output"]["inlinedResponses"]["inlinedResponses"]
    assert told["response"] == metadata["output"]
    assert [one["metadata"] for one in answers] == [{"key": f"k-{text}", "n": {"of": [1]}} for text in texts]
    for text, one in zip(texts, answers, strict=True):
        if text == BAD:
            assert one["error"]["code"] == 3
            assert set(one["error"]) == {"code", "message"}  # details that are objects make the SDK raise
        else:
            assert text in one["response"]["candidates"][0]["content"]["parts"][0]["text"]
    common = (await running.call("GET", f"/v1/batches/batch_{made['name'].removeprefix('batches/')}")).json
    assert (common["status"], common["endpoint"], common["model"]) == (
        "completed",
        "/v1beta/models:generateContent",
        "chat-1",
    )
    assert common["request_counts"]["completed"] == 39


async def test_the_sdk_reads_an_inline_batch(client: genai.client.AsyncClient) -> None:
    source = [
        types.InlinedRequest(
            contents="Hello", metadata={"key": "a"}, config=types.GenerateContentConfig(temperature=0.5)
        ),
        types.InlinedRequest(contents=BAD, metadata={"key": "b"}),
    ]
    made = await client.batches.create(model="chat-1", src=source, config={"display_name": "sdk"})
    job = await done_job(client, made.name or "")
    assert (job.state, job.display_name) == (types.JobState.JOB_STATE_SUCCEEDED, "sdk")
    assert job.dest
    good, bad = job.dest.inlined_responses or []
    assert good.response
    assert "Hello" in (good.response.text or "")
    assert (good.metadata, bad.metadata) == ({"key": "a"}, {"key": "b"})
    assert bad.error
    assert bad.error.code == 3
    listed = [one.name async for one in await client.batches.list(config={"page_size": 1})]
    assert listed == [made.name]
    await client.batches.cancel(name=made.name or "")  # it has ended: nothing changes
    assert (await client.batches.get(name=made.name or "")).state == types.JobState.JOB_STATE_SUCCEEDED
    await client.batches.delete(name=made.name or "")
    with pytest.raises(genai.errors.ClientError) as raised:
        await client.batches.get(name=made.name or "")
    assert raised.value.code == 404


async def test_the_sdk_runs_a_file(client: genai.client.AsyncClient, running: TestGateway) -> None:
    lines = [{"key": name, "request": request_of(name)} for name in ("one", BAD, "three")]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    config = types.UploadFileConfig(display_name="in", mime_type="jsonl")
    file = await client.files.upload(file=io.BytesIO(content), config=config)
    assert (file.display_name, file.size_bytes, file.state) == ("in", len(content), types.FileState.ACTIVE)
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    assert file.sha256_hash == digest
    made = await client.batches.create(model="short", src=file.name or "", config={"display_name": "f"})
    job = await done_job(client, made.name or "")
    assert job.state == types.JobState.JOB_STATE_SUCCEEDED
    assert job.dest
    raw = await client.files.download(file=job.dest.file_name or "")
    told = {line["key"]: line for line in map(json.loads, raw.decode().splitlines())}
    assert list(told) == ["one", BAD, "three"]
    assert told["one"]["response"]["modelVersion"] == "chat-1"
    assert told[BAD]["error"]["code"] == 3
    names = [one.name async for one in await client.files.list(config={"page_size": 1})]
    assert names == [job.dest.file_name, file.name]
    common = (await running.call("GET", f"/v1/batches/batch_{(made.name or '').removeprefix('batches/')}")).json
    assert common["input_file_id"] == f"file-{(file.name or '').removeprefix('files/')}"
    assert common["output_file_id"] == f"file-{(job.dest.file_name or '').removeprefix('files/')}"
    assert common["error_file_id"] is None
    await client.files.delete(name=file.name or "")
    assert [one.name async for one in await client.files.list()] == [job.dest.file_name]


async def test_embeddings_inline_and_from_a_file(client: genai.client.AsyncClient, running: TestGateway) -> None:
    contents: Any = ["a", "b"]
    with pytest.warns(genai.errors.ExperimentalWarning):
        made = await client.batches.create_embeddings(model="embed-1", src={"inlined_requests": {"contents": contents}})
    job = await done_job(client, made.name or "")
    assert job.dest
    vectors = [
        one.response.embedding.values if one.response and one.response.embedding else None
        for one in job.dest.inlined_embed_content_responses or []
    ]
    assert len(vectors) == 2
    assert all(vectors)
    line = {"key": "x", "request": {"content": {"parts": [{"text": "c"}]}, "output_dimensionality": 8}}
    file = await upload(running, json.dumps(line).encode())
    body = {"batch": {"display_name": "e", "input_config": {"file_name": file["name"]}}}
    created = (await ask(running, "POST", "/v1/models/embed-1:asyncBatchEmbedContent", json=body)).json
    told = await ended(running, created["name"])
    name = told["metadata"]["output"]["responsesFile"]
    content = (await ask(running, "GET", f"/v1/{name}:download?alt=media")).json
    assert (content["key"], len(content["response"]["embedding"]["values"])) == ("x", 8)


async def upload(gateway: TestGateway, content: bytes) -> Any:
    """A file sent whole in one part."""
    begun = await ask(gateway, "POST", UPLOAD, json={"file": {"display_name": "in"}})
    headers = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"}
    url = begun.headers["x-goog-upload-url"].removeprefix(gateway.url)
    return (await gateway.call("POST", url, key=None, headers=headers, data=content)).json["file"]


async def test_a_file_with_a_bad_line_fails_and_says_which(running: TestGateway) -> None:
    lines = [json.dumps({"key": "a", "request": request_of("x")}), '{"key": "a", "request": {"contents": [{}]}}', "{"]
    file = await upload(running, "\n".join(lines).encode())
    body = {"batch": {"displayName": "f", "inputConfig": {"fileName": file["name"]}}}
    made = (await ask(running, "POST", CREATE, json=body)).json
    told = await ended(running, made["name"])
    assert told["metadata"]["state"] == "BATCH_STATE_FAILED"
    assert told["error"]["message"].startswith("Line 2: ")
    assert "response" not in told
    common = (await running.call("GET", f"/v1/batches/batch_{made['name'].removeprefix('batches/')}")).json
    assert [(one["line"], one["code"]) for one in common["errors"]["data"]] == [
        (2, "duplicate_custom_id"),
        (3, "invalid_json_line"),
    ]


async def test_a_batch_that_is_being_cancelled_runs_and_ends_cancelled(
    running: TestGateway, upstream: FakeUpstream, client: genai.client.AsyncClient
) -> None:
    body = inline("behave:latency=600")
    body["batch"]["inputConfig"]["requests"]["requests"][0]["metadata"] = {"key": "a"}
    made = (await ask(running, "POST", CREATE, json=body)).json
    await upstream.arrived.get()
    first = (await ask(running, "DELETE", f"/v1beta/{made['name']}")).json
    assert (first["error"]["code"], first["error"]["status"]) == (409, "FAILED_PRECONDITION")
    await client.batches.cancel(name=made["name"])
    cancelled = await ask(
        running, "POST", f"/v1beta/{made['name']}:cancel", headers={"content-type": "application/json"}, data=b""
    )
    assert (cancelled.status, cancelled.json) == (200, {})
    assert (await client.batches.get(name=made["name"])).state == types.JobState.JOB_STATE_RUNNING
    upstream.hurry()
    assert (await done_job(client, made["name"])).state == types.JobState.JOB_STATE_CANCELLED


async def test_an_upload_in_parts_may_be_repeated(gateway: TestGateway) -> None:
    content = bytes(range(256)) * 40
    size = {"x-goog-upload-header-content-length": str(len(content))}
    begun = await ask(gateway, "POST", UPLOAD, json={"file": {"display_name": "n"}}, headers=size)
    assert (begun.status, begun.headers["x-goog-upload-status"]) == (200, "active")
    url = begun.headers["x-goog-upload-url"]
    assert url.startswith(gateway.url)

    async def send(command: str, offset: int, data: bytes) -> Answer:
        headers = {"x-goog-upload-command": command, "x-goog-upload-offset": str(offset)}
        return await gateway.call("POST", url.removeprefix(gateway.url), key=None, headers=headers, data=data)

    for _ in range(2):
        part = await send("upload", 0, content[:4_000])
        assert (part.headers["x-goog-upload-status"], part.headers["x-goog-upload-size-received"]) == ("active", "4000")
    gap = await send("upload", 5_000, b"x")
    assert (gap.status, gap.error["status"]) == (409, "FAILED_PRECONDITION")
    early = await send("upload, finalize", 3_000, content[3_000:6_000])
    assert early.status == 400
    assert (await send("query", 0, b"")).headers["x-goog-upload-size-received"] == "6000"
    whole = await asyncio.gather(*(send("upload, finalize", 6_000, content[6_000:]) for _ in range(2)))
    names = {answer.json["file"]["name"] for answer in whole}
    assert {answer.headers["x-goog-upload-status"] for answer in whole} == {"final"}
    assert len(names) == 1
    name = names.pop()
    assert (await ask(gateway, "GET", f"/v1beta/{name}:download?alt=media")).body == content
    assert len((await ask(gateway, "GET", "/v1/files")).json["files"]) == 1
    assert (await send("upload, finalize", 6_000, content[6_000:])).json["file"]["name"] == name


@pytest.mark.parametrize(
    "protocol", [{"headers": {"x-goog-upload-protocol": "raw"}}, {"params": {"uploadType": "media"}}]
)
async def test_a_file_may_come_whole_in_one_call(gateway: TestGateway, protocol: dict[str, dict[str, str]]) -> None:
    headers = {"x-goog-upload-file-name": "all.jsonl", "content-type": "application/jsonl"} | protocol.get(
        "headers", {}
    )
    more = {name: value for name, value in protocol.items() if name != "headers"}
    content = bytes(range(256)) * 40
    stored = await ask(gateway, "POST", UPLOAD, headers=headers, data=content, **more)
    file = stored.json["file"]
    assert (stored.headers["x-goog-upload-status"], file["displayName"], file["sizeBytes"]) == (
        "final",
        "all.jsonl",
        str(len(content)),
    )
    assert (await ask(gateway, "GET", f"/v1beta/{file['name']}:download")).body == content


NO_UPLOADS: dict[str, tuple[dict[str, Any], str]] = {
    "two parts": ({"params": {"uploadType": "multipart"}, "data": b"--b"}, "x-goog-upload-protocol: must be resumable"),
    "a command": ({"json": {}, "headers": {"x-goog-upload-command": "start, upload"}}, "Command: must be start"),
    "a picture": ({"json": {"file": {"mime_type": "image/png"}}}, "file.mimeType: only JSONL"),
    "a raw picture": (
        {"headers": {"x-goog-upload-protocol": "raw", "content-type": "video/mp4"}, "data": b"x"},
        "content-type: only JSONL",
    ),
    "a name": ({"json": {"file": {"name": "files/mine"}}}, "file.name: names are given"),
    "a life": ({"json": {"file": {"expiration_time": "2030-01-01T00:00:00Z"}}}, "file.expiration_time: not supported"),
    "no object": ({"json": {"file": []}}, "file: expected object"),
    "another member": ({"json": {"file": {}, "x": 1}}, "x: not supported"),
}


@pytest.mark.parametrize("case", NO_UPLOADS)
async def test_an_upload_that_cannot_be_kept_as_asked_is_refused(gateway: TestGateway, case: str) -> None:
    sent, problem = NO_UPLOADS[case]
    answer = await ask(gateway, "POST", UPLOAD, **sent)
    assert answer.status == 400, answer.body
    assert problem in answer.error["message"]


async def test_an_upload_is_its_owners_until_it_is_given_up(gateway: TestGateway) -> None:
    other = await gateway.new_key("free", Role.FREE)
    assert (await gateway.call("POST", UPLOAD, key=None, json={})).status == 401
    begun = await ask(gateway, "POST", UPLOAD, data=b"")
    url = begun.headers["x-goog-upload-url"].removeprefix(gateway.url)
    file = await gateway.call("POST", url, key=None, headers={"x-goog-upload-command": "upload, finalize"}, data=b"{}")
    name = file.json["file"]["name"]
    for method, path in (("GET", name), ("DELETE", name), ("GET", f"{name}:download")):
        answer = await gateway.call(method, f"/v1beta/{path}", key=None, headers={"x-goog-api-key": other})
        assert (answer.status, answer.error["status"]) == (404, "NOT_FOUND")
    again = (await ask(gateway, "POST", UPLOAD, json={})).headers["x-goog-upload-url"].removeprefix(gateway.url)
    gone = await gateway.call("POST", again, key=None, headers={"x-goog-upload-command": "cancel"})
    assert gone.headers["x-goog-upload-status"] == "cancelled"
    assert (await gateway.call("POST", again, key=None, headers={"x-goog-upload-command": "query"})).status == 404
    too_large = {"x-goog-upload-header-content-length": str(10**12)}
    assert (await ask(gateway, "POST", UPLOAD, json={}, headers=too_large)).status == 413


async def test_an_upload_that_came_to_nothing_counts_as_one_that_failed(
    database_url: str, listen_url: str, models: Path
) -> None:
    async with start_gateway(
        database_url, models, listen_url=listen_url, environ={"BATCH_FILE_UPLOADS_PER_HOUR": "3"}
    ) as gateway:

        async def begun(**headers: str) -> Answer:
            return await ask(gateway, "POST", UPLOAD, json={}, headers=headers)

        async def send(upload: Answer, command: str) -> Answer:
            url = upload.headers["x-goog-upload-url"].removeprefix(gateway.url)
            return await gateway.call("POST", url, key=None, headers={"x-goog-upload-command": command}, data=b"")

        awaited = await begun(**{"x-goog-upload-header-content-length": "3"})
        assert (await send(awaited, "finalize")).status == 400  # the rest may still come
        assert (await send(await begun(), "cancel")).status == 200
        empty = await begun()
        assert (await send(empty, "upload, finalize")).error["message"] == "The file is empty"
        assert (await begun()).status == 200
        assert (await send(awaited, "cancel")).status == 200
        over = await begun()
        assert (over.status, over.error["status"]) == (429, "RESOURCE_EXHAUSTED")
        changed = await gateway.call("PATCH", "/admin/config", json={"BATCH_ENABLED": False})
        assert changed.status == 200
        assert (await send(empty, "query")).status == 404


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "batch"),
    "no source": ({"batch": {"displayName": "x", "inputConfig": {}}}, "inputConfig"),
    "no requests": ({"batch": {"inputConfig": {"requests": {"requests": []}}}}, "requests.requests"),
    "no request": ({"batch": {"inputConfig": {"requests": {"requests": [{"metadata": {}}]}}}}, "requests.requests"),
    "a bad file": ({"batch": {"inputConfig": {"fileName": "nofile/x"}}}, "fileName"),
    "an unknown file": ({"batch": {"inputConfig": {"fileName": "files/abc"}}}, "of yours: files/abc"),
    "a webhook": (inline("a", webhookConfig={"uris": ["https://x"]}), "webhookConfig"),
    "another model": (inline("a", model="models/other"), "batch.model"),
    "a key of an inline request": (
        {"batch": {"inputConfig": {"requests": {"requests": [{"request": request_of("a"), "key": "x"}]}}}},
        "requests[0].key: not supported here",
    ),
    "a priority": (inline("a", priority="high"), "priority"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_create_call_that_is_none_is_refused_by_its_path(gateway: TestGateway, case: str) -> None:
    body, path = REFUSED[case]
    answer = await ask(gateway, "POST", CREATE, json=body)
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT"), answer.body
    assert path in answer.error["message"]


async def test_lists_read_their_parameters_as_the_api_does(gateway: TestGateway) -> None:
    for _ in range(2):
        assert (await ask(gateway, "POST", CREATE, json=inline("a"))).status == 200

    async def page(query: str) -> Answer:
        return await ask(gateway, "GET", f"/v1beta/batches?{query}")

    first = (await page("page_size=1")).json
    rest = (await page(f"page_size=1&page_token={first['nextPageToken']}")).json
    assert [one["name"] for told in (first, rest) for one in told["operations"]] == [
        one["name"] for one in (await page("pageSize=0")).json["operations"]
    ]
    assert "nextPageToken" not in rest
    assert (await page("pageSize=100000")).status == 200
    for bad in ("pageSize=-1", "pageToken=none"):
        assert (await page(bad)).error["status"] == "INVALID_ARGUMENT"


async def test_what_is_not_there_is_named_as_it_was_asked_for(gateway: TestGateway) -> None:
    for path in ("batches/none", "files/none", "batches/No!", "files/No!"):
        answer = await ask(gateway, "GET", f"/v1/{path}")
        assert (answer.status, answer.error["status"]) == (404, "NOT_FOUND")
        assert answer.error["message"].endswith(f": {path}")
    for path in ("models/chat-1:predict", "batches/none:archive", "files/none:rename"):
        verb = await ask(gateway, "POST", f"/v1/{path}", json={})
        assert (verb.status, verb.error["status"]) == (404, "NOT_FOUND")
        assert verb.error["message"] == f"Unknown path: POST /v1/{path}"
    elsewhere = await ask(gateway, "POST", "/v1/cachedContents", json={})
    assert (elsewhere.status, elsewhere.error["status"]) == (404, "NOT_FOUND")


async def test_a_request_that_cannot_run_fails_alone(running: TestGateway) -> None:
    body = inline("a", "b")
    body["batch"]["inputConfig"]["requests"]["requests"].append({"request": request_of("c") | {"service_tier": "flex"}})
    body["batch"]["inputConfig"]["requests"]["requests"][0]["request"]["tools"] = [{"googleSearch": {}}]
    made = (await ask(running, "POST", CREATE, json=body)).json
    told = await ended(running, made["name"])
    bad, good, flex = told["metadata"]["output"]["inlinedResponses"]["inlinedResponses"]
    assert "googleSearch" in bad["error"]["message"]
    assert flex["error"] == {"code": 3, "message": "service_tier: must be standard in a batch"}
    assert "response" in good
    body["batch"]["inputConfig"]["requests"]["requests"][1:2] = []
    none_good = (await ask(running, "POST", CREATE.replace("chat-1", "short"), json=body)).json["metadata"]
    assert (none_good["state"], none_good["model"]) == ("BATCH_STATE_SUCCEEDED", "models/chat-1")
    unknown = await ask(running, "POST", "/v1beta/models/none:batchGenerateContent", json=body)
    assert (unknown.status, unknown.error["status"]) == (404, "NOT_FOUND")


async def test_creates_replay_and_failures_are_retried_in_the_common_shape(running: TestGateway) -> None:
    keyed = {"Idempotency-Key": "once"}
    first, again = [
        (await ask(running, "POST", CREATE, json=inline("a"), headers=keyed)).json["name"] for _ in range(2)
    ]
    assert first == again
    other = await ask(running, "POST", CREATE, json=inline("b"), headers=keyed)
    assert (other.status, other.error["status"]) == (409, "FAILED_PRECONDITION")
    file = await upload(running, json.dumps({"key": "x", "request": request_of(BAD)}).encode())
    body = {"batch": {"inputConfig": {"fileName": file["name"]}}}
    failed = await ended(running, (await ask(running, "POST", CREATE, json=body)).json["name"])
    batch = f"batch_{failed['name'].removeprefix('batches/')}"
    retried = await running.call("POST", f"/v1/batches/{batch}/retry")
    assert (retried.status, retried.json["endpoint"]) == (200, "/v1beta/models:generateContent")
