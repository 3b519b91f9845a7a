"""The official OpenAI Python SDK, unmodified, against a real gateway process: batches, files, errors, live calls."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from openai import (
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    DefaultAsyncHttpxClient,
    NotFoundError,
    OpenAI,
    PermissionDeniedError,
    RateLimitError,
)
from openai.types import Batch
from tests.conftest import Server, database_at
from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import chat_model, embedding_model, models_file, request_line, until
from tests.people import create_account, create_key
from tests.processes import GatewayProcess, Processes, holds

from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock
from ebbtide.storage.pool import Database

pytestmark = pytest.mark.processes

CHAT: Final = "/v1/chat/completions"
EMBEDDINGS: Final = "/v1/embeddings"
FINAL = {"completed", "failed", "expired", "cancelled"}
MAX_ACTIVE = 3

NewClient = Callable[[Role], Awaitable[AsyncOpenAI]]


@pytest.fixture(scope="module")
async def model_server() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture(autouse=True)
def upstream(model_server: FakeUpstream) -> FakeUpstream:
    """The module's upstream, on its best behaviour again."""
    model_server.decide = None
    model_server.requests.clear()
    return model_server


@pytest.fixture(scope="module")
async def database_name(server: Server, template: str) -> AsyncIterator[str]:
    async with server.database(template) as name:
        yield name


@pytest.fixture(scope="module")
async def gateway(
    server: Server, database_name: str, model_server: FakeUpstream, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    """One gateway for this file; each test has accounts of its own."""
    folder = tmp_path_factory.mktemp("sdk")
    models = models_file(
        folder,
        chat_model(model_server.url, aliases=["short"]),
        embedding_model(model_server.url),
        chat_model(model_server.url, "org/for-admins", min_role="admin"),
    )
    environ = {
        "EBBTIDE_DATABASE_URL": database_at(server.url, database_name),
        "EBBTIDE_DATABASE_LISTEN_URL": database_at(server.listen_url, database_name),
        "BATCH_MAX_ACTIVE_PER_USER": str(MAX_ACTIVE),
        "BATCH_MAX_BODY_MB": "1",
    }
    async with Processes(folder, models, **environ) as processes:
        yield await processes.start()


@pytest.fixture
async def new_client(gateway: GatewayProcess, server: Server, database_name: str) -> AsyncIterator[NewClient]:
    """Makes a client with the key of a new account."""
    clients: list[AsyncOpenAI] = []
    numbers = itertools.count()
    async with await Database.connect(database_at(server.url, database_name)) as database:

        async def make(role: Role) -> AsyncOpenAI:
            now = SystemClock().now()
            account = await create_account(database, f"user-{now.timestamp()}-{next(numbers)}", role, now)
            _, secret = await create_key(database, account.id, now=now)
            clients.append(AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=secret))
            return clients[-1]

        yield make
        for client in clients:
            await client.close()


@pytest.fixture
async def client(new_client: NewClient) -> AsyncOpenAI:
    return await new_client(Role.INTERNAL)


def jsonl(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def embedding_line(custom_id: str, text: str) -> dict[str, Any]:
    body = {"model": "embed-1", "input": text}
    return {"custom_id": custom_id, "method": "POST", "url": EMBEDDINGS, "body": body}


async def submit(client: AsyncOpenAI, *lines: object, **more: Any) -> Batch:
    """A batch from a file of chat lines."""
    file = await client.files.create(file=jsonl(*lines), purpose="batch")
    given: dict[str, Any] = {"endpoint": CHAT, "completion_window": "24h"} | more
    return await client.batches.create(input_file_id=file.id, **given)


async def ended(client: AsyncOpenAI, batch: Batch) -> Batch:
    async def final() -> Batch | None:
        seen = await client.batches.retrieve(batch.id)
        return seen if seen.status in FINAL else None

    found: Batch = await until(final, within=60)
    return found


async def lines_of(client: AsyncOpenAI, file_id: str | None) -> list[Any]:
    assert file_id is not None
    content = await client.files.content(file_id)
    return [json.loads(line) for line in content.text.splitlines()]


def counting(client: AsyncOpenAI) -> tuple[AsyncOpenAI, list[str]]:
    """The same client, and the paths of the requests that it sends."""
    sent: list[str] = []

    async def note(request: Any) -> None:
        sent.append(f"{request.method} {request.url.path}")

    return client.with_options(http_client=DefaultAsyncHttpxClient(event_hooks={"request": [note]})), sent


# Batches from files -------------------------------------------------------------------------------------------------


async def test_a_chat_batch_from_upload_to_output(client: AsyncOpenAI, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_bytes(jsonl(*(request_line(f"q-{n}", text=f"Hello {n}") for n in range(20))))
    with path.open("rb") as opened:
        file = await client.files.create(file=opened, purpose="batch")
    assert (file.object, file.purpose, file.status) == ("file", "batch", "processed")
    assert (file.filename, file.bytes) == ("requests.jsonl", path.stat().st_size)
    batch = await client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"project": "eval-42"}
    )
    assert batch.status in ("validating", "in_progress", "finalizing")
    assert batch.metadata == {"project": "eval-42"}
    batch = await ended(client, batch)
    assert (batch.status, batch.error_file_id, batch.errors) == ("completed", None, None)
    assert batch.request_counts is not None
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (20, 20, 0)
    usage = batch.model_dump()["usage"]  # SDKs of before September 2025 have no type for it
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    assert usage["input_tokens_details"] == {"cached_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    lines = await lines_of(client, batch.output_file_id)
    assert sorted(line["custom_id"] for line in lines) == sorted(f"q-{n}" for n in range(20))
    for line in lines:
        assert line["error"] is None
        assert line["response"]["status_code"] == 200
        assert line["response"]["body"]["object"] == "chat.completion"
        assert line["response"]["body"]["model"] == "chat-1"
    assert (await client.files.content(file.id)).content == path.read_bytes()


async def test_an_embedding_batch(client: AsyncOpenAI) -> None:
    lines = [embedding_line(f"e-{n}", f"some text {n}") for n in range(5)]
    batch = await ended(client, await submit(client, *lines, endpoint=EMBEDDINGS))
    assert (batch.status, batch.endpoint) == ("completed", EMBEDDINGS)
    output = await lines_of(client, batch.output_file_id)
    assert len(output) == 5
    for line in output:
        body = line["response"]["body"]
        assert (body["object"], body["model"]) == ("list", "embed-1")
        assert len(body["data"][0]["embedding"]) == 256


async def test_failed_requests_are_in_the_error_file(client: AsyncOpenAI) -> None:
    good, bad = request_line("good"), request_line("bad", text="behave:status=400")
    batch = await ended(client, await submit(client, good, bad))
    assert batch.status == "completed"
    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
    assert [line["custom_id"] for line in await lines_of(client, batch.output_file_id)] == ["good"]
    (line,) = await lines_of(client, batch.error_file_id)
    assert (line["custom_id"], line["error"]) == ("bad", None)
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"]["message"]


async def test_bad_lines_are_told_with_code_and_line(client: AsyncOpenAI) -> None:
    good = request_line("a")
    content = b"\n".join(
        [
            json.dumps(good).encode(),
            b"not json",
            json.dumps(good).encode(),
            json.dumps(embedding_line("e", "text")).encode(),
            json.dumps(request_line("other", "short", stream=True)).encode(),
            json.dumps(request_line("unknown", "no-such-model")).encode(),
        ]
    )
    file = await client.files.create(file=("bad.jsonl", content), purpose="batch")
    batch = await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert batch.status == "validating"
    batch = await ended(client, batch)
    assert batch.status == "failed"
    assert batch.failed_at is not None
    assert batch.errors is not None
    assert batch.errors.data is not None
    told = {error.line: error.code for error in batch.errors.data if error.line is not None}
    assert told.keys() == {2, 3, 4, 5, 6}
    assert (told[2], told[3], told[4]) == ("invalid_json_line", "duplicate_custom_id", "url_mismatch")
    assert all(error.message for error in batch.errors.data)
    assert (batch.output_file_id, batch.error_file_id) == (None, None)


async def test_lists_page_by_themselves(client: AsyncOpenAI) -> None:
    made = []
    for number in range(5):
        batch = await submit(client, request_line("a"), metadata={"number": str(number)})
        made.append((await ended(client, batch)).id)
    assert [batch.id async for batch in client.batches.list(limit=2)] == made[::-1]
    page = await client.batches.list(limit=2)
    assert page.has_next_page()
    assert [batch.id for batch in page.data] == made[:2:-1]
    inputs = [file.id async for file in client.files.list(limit=2, purpose="batch", order="asc")]
    assert len(inputs) == len(set(inputs)) == 5
    everything = [file async for file in client.files.list(limit=3)]
    assert [file.purpose for file in everything].count("batch_output") == 5
    assert len(everything) == 10


async def test_what_sdk_users_send_is_no_error(client: AsyncOpenAI) -> None:
    file = await client.files.create(
        file=jsonl(
            request_line("a", stream=False, max_completion_tokens=5, n=None, stop=None),
            request_line("b", user="somebody", temperature=0.5, made_up={"field": [1, 2]}),
        ),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 3_600},
    )
    assert file.expires_at is not None
    assert file.expires_at - file.created_at == 3_600
    batch = await client.batches.create(
        input_file_id=file.id,
        endpoint=CHAT,
        completion_window="24h",
        metadata=None,
        extra_body={"output_expires_after": {"anchor": "created_at", "seconds": 3_600}, "include": []},
    )
    batch = await ended(client, batch)
    assert (batch.status, batch.metadata) == ("completed", None)
    assert batch.output_file_id is not None
    output = await client.files.retrieve(batch.output_file_id)
    assert output.expires_at is not None
    assert output.expires_at - output.created_at == 3_600
    other = await submit(client, request_line("c"), extra_body={"output_expires_after": None, "metadata": None})
    assert (await ended(client, other)).status == "completed"


def _with_the_sync_client(url: str, key: str, path: Path) -> Any:
    with OpenAI(base_url=f"{url}/v1", api_key=key) as client:
        file = client.files.create(file=path, purpose="batch")
        assert client.files.wait_for_processing(file.id, max_wait_seconds=5).status == "processed"
        batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
        assert client.batches.cancel(batch.id).id == batch.id
        assert client.files.delete(file.id).deleted
        with client.files.with_streaming_response.content(client.files.create(file=path, purpose="batch").id) as got:
            return b"".join(got.iter_bytes(64))


async def test_the_blocking_client(gateway: GatewayProcess, client: AsyncOpenAI, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(jsonl(request_line("a"), request_line("b")))
    assert await asyncio.to_thread(_with_the_sync_client, gateway.url, client.api_key, path) == path.read_bytes()


# Cancelling ---------------------------------------------------------------------------------------------------------


async def test_cancelling_while_running_and_when_final(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    upstream.decide = lambda _: Behaviour(latency=30.0)
    batch = await submit(client, *(request_line(f"q-{n}") for n in range(200)))
    await holds(lambda: upstream.in_flight == 64)
    cancelled = await client.batches.cancel(batch.id)
    assert cancelled.status == "cancelling"
    assert cancelled.cancelling_at is not None
    again = await client.batches.cancel(batch.id)
    assert (again.status, again.cancelling_at) == ("cancelling", cancelled.cancelling_at)

    async def rest_is_cancelled() -> bool:
        counts: Any = (await client.batches.retrieve(batch.id)).request_counts
        return bool(counts.cancelled == 136)

    await until(rest_is_cancelled)
    assert (await client.batches.retrieve(batch.id)).status == "cancelling"
    sent = len(upstream.requests)
    upstream.hurry()
    batch = await ended(client, batch)
    assert batch.status == "cancelled"
    assert batch.cancelled_at is not None
    assert batch.request_counts is not None
    assert (batch.request_counts.completed, batch.request_counts.failed) == (64, 0)
    assert len(upstream.requests) == sent == 64
    assert len(await lines_of(client, batch.output_file_id)) == 64
    never_ran = await lines_of(client, batch.error_file_id)
    assert {line["error"]["code"] for line in never_ran} == {"batch_cancelled"}
    assert len(never_ran) == 136
    assert (await client.batches.cancel(batch.id)) == batch


async def test_cancelling_a_completed_batch_changes_nothing(client: AsyncOpenAI) -> None:
    batch = await ended(client, await submit(client, request_line("a")))
    assert (await client.batches.cancel(batch.id)) == batch
    assert (await client.batches.retrieve(batch.id)).status == "completed"


async def test_cancelling_while_validating(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    batch = await submit(client, *(request_line(f"q-{n}") for n in range(3_000)))
    cancelled = await client.batches.cancel(batch.id)
    assert cancelled.status in ("cancelling", "cancelled")
    assert (await ended(client, batch)).status == "cancelled"


# Errors -------------------------------------------------------------------------------------------------------------


async def test_400_bad_request(client: AsyncOpenAI) -> None:
    file = await client.files.create(file=jsonl(request_line("a")), purpose="batch")
    with pytest.raises(BadRequestError, match="completion_window") as refused:
        await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="25h")  # type: ignore[arg-type]
    assert (refused.value.param, refused.value.type) == ("completion_window", "invalid_request_error")
    with pytest.raises(BadRequestError, match="endpoint"):
        await client.batches.create(input_file_id=file.id, endpoint="/v1/moderations", completion_window="24h")
    with pytest.raises(BadRequestError):
        await client.batches.create(input_file_id="file-unknown", endpoint=CHAT, completion_window="24h")
    with pytest.raises(BadRequestError, match="purpose"):
        await client.files.create(file=jsonl(request_line("a")), purpose="fine-tune")
    with pytest.raises(BadRequestError, match="limit"):
        await client.batches.list(limit=101)
    with pytest.raises(BadRequestError):
        await client.batches.list(after="no-such-batch")


async def test_401_authentication(client: AsyncOpenAI) -> None:
    stranger = client.with_options(api_key="ebb-" + "x" * 43)
    with pytest.raises(AuthenticationError) as refused:
        await stranger.batches.list()
    assert refused.value.status_code == 401
    with pytest.raises(AuthenticationError):
        await stranger.chat.completions.create(model="chat-1", messages=[{"role": "user", "content": "Hi"}])


async def test_403_permission(new_client: NewClient) -> None:
    user = await new_client(Role.FREE)
    with pytest.raises(PermissionDeniedError):
        await user.files.create(file=jsonl(request_line("a")), purpose="batch")
    with pytest.raises(PermissionDeniedError):
        await user.batches.create(input_file_id="file-any", endpoint=CHAT, completion_window="24h")
    assert (await user.batches.list()).data == []


async def test_404_not_found(client: AsyncOpenAI, new_client: NewClient) -> None:
    batch = await ended(client, await submit(client, request_line("a")))
    other = await new_client(Role.INTERNAL)
    with pytest.raises(NotFoundError) as missing:
        await other.batches.retrieve("batch_" + "0" * 32)
    with pytest.raises(NotFoundError) as foreign:
        await other.batches.retrieve(batch.id)
    assert missing.value.message.replace("0" * 32, "") == foreign.value.message.replace(batch.id[6:], "")
    with pytest.raises(NotFoundError):
        await other.batches.cancel(batch.id)
    assert batch.output_file_id is not None
    with pytest.raises(NotFoundError):
        await other.files.content(batch.output_file_id)
    with pytest.raises(NotFoundError):
        await other.models.retrieve("org/for-admins")


async def test_409_conflicts_are_not_repeated(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    upstream.decide = lambda _: Behaviour(latency=30.0)
    batch = await submit(client, request_line("a"))
    await holds(lambda: upstream.in_flight == 1)
    counted, sent = counting(client)
    with pytest.raises(ConflictError) as refused:
        await counted.delete(f"/batches/{batch.id}", cast_to=object)
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert sent == [f"DELETE /v1/batches/{batch.id}"]
    with pytest.raises(ConflictError):
        await counted.get(f"/batches/{batch.id}/output.jsonl", cast_to=object)
    assert len(sent) == 2
    await counted.close()
    upstream.hurry()
    await ended(client, batch)
    deleted: Any = await client.delete(f"/batches/{batch.id}", cast_to=object)
    assert deleted == {"id": batch.id, "object": "batch.deleted", "deleted": True}
    with pytest.raises(NotFoundError):
        await client.batches.retrieve(batch.id)


async def test_413_too_large(client: AsyncOpenAI) -> None:
    line = jsonl(request_line("a", text="x" * 100_000))
    with pytest.raises(APIStatusError) as refused:
        await client.files.create(file=line * 11, purpose="batch")
    assert refused.value.status_code == 413
    assert (await client.files.list()).data == []
    with pytest.raises(APIStatusError) as refused:
        await client.post("/batches", cast_to=object, body={"requests": [request_line("a", text="x" * 1_200_000)]})
    assert refused.value.status_code == 413


async def test_429_too_many_unfinished_batches(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    upstream.decide = lambda _: Behaviour(latency=30.0)
    batches = [await submit(client, request_line("a")) for _ in range(MAX_ACTIVE)]
    file = await client.files.create(file=jsonl(request_line("a")), purpose="batch")
    counted, sent = counting(client)
    with pytest.raises(RateLimitError) as refused:
        await counted.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert refused.value.code == "active_batch_limit"
    assert len(sent) == 1
    await counted.close()
    await holds(lambda: upstream.in_flight == MAX_ACTIVE)
    upstream.hurry()
    for batch in batches:
        assert (await ended(client, batch)).status == "completed"


# Interactive --------------------------------------------------------------------------------------------------------


async def test_chat_completions(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    answer = await client.chat.completions.create(
        model="short", messages=[{"role": "user", "content": "Hello"}], extra_body={"made_up": {"x": 1}}
    )
    assert answer.model == "short"
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0
    assert upstream.requests[-1].json["made_up"] == {"x": 1}
    assert upstream.requests[-1].json["model"] == "chat-1"


@pytest.mark.parametrize("include_usage", [True, False, None])
async def test_streams_show_usage_only_when_asked(client: AsyncOpenAI, include_usage: bool | None) -> None:
    options: dict[str, Any] = {} if include_usage is None else {"stream_options": {"include_usage": include_usage}}
    stream = await client.chat.completions.create(
        model="chat-1", messages=[{"role": "user", "content": "Hello"}], stream=True, **options
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert {chunk.model for chunk in chunks} == {"chat-1"}
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    if include_usage:
        assert chunks[-1].choices == []
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.total_tokens > 0
    else:
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)


async def test_embeddings(client: AsyncOpenAI) -> None:
    answer = await client.embeddings.create(model="embed-1", input=["one", "two"])
    assert [entry.index for entry in answer.data] == [0, 1]
    assert {len(entry.embedding) for entry in answer.data} == {256}
    assert answer.usage.total_tokens > 0


async def test_upstream_errors_keep_their_class(client: AsyncOpenAI, upstream: FakeUpstream) -> None:
    def refuse(request: Received) -> Behaviour:
        return Behaviour(status=400, message="temperature is too high")

    upstream.decide = refuse
    with pytest.raises(BadRequestError, match="temperature is too high"):
        await client.chat.completions.create(model="chat-1", messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(NotFoundError):
        await client.chat.completions.create(model="no-such-model", messages=[{"role": "user", "content": "Hi"}])


async def test_models(client: AsyncOpenAI, new_client: NewClient) -> None:
    assert [model.id async for model in client.models.list()] == ["chat-1", "embed-1"]
    assert (await client.models.retrieve("chat-1")).object == "model"
    with pytest.raises(NotFoundError):
        await client.models.retrieve("no-such-model")
    admin = await new_client(Role.ADMIN)
    assert "org/for-admins" in [model.id async for model in admin.models.list()]
    assert (await admin.models.retrieve("org/for-admins")).id == "org/for-admins"
