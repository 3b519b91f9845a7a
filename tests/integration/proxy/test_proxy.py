"""Interactive requests through the proxy: answers, streams, errors in OpenAI's shape, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream, closed_port

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.openai.bodies import parse_body
from ebbtide.dialects.openai.errors import render_error
from ebbtide.dialects.values import Usage
from ebbtide.dispatch import connections
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Timeouts
from ebbtide.dispatch.send import Sender
from ebbtide.errors import UpstreamFailed
from ebbtide.proxy.forward import Ask, forward
from ebbtide.proxy.stream import forward_stream


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender)


def ask(url: str, *, timeouts: Timeouts = Timeouts(), **members: Any) -> Ask:  # noqa: B008  frozen
    request = {"model": "alias", "messages": [{"role": "user", "content": "hello there"}], **members}
    route = Route(id="r", kind="vllm", model="acme/Upstream-7B", base_url=url, api_keys=("sk-topsecret",))
    model = Model(id="canonical", type="chat", routes=(route,), aliases=("alias",))
    return Ask("chat", model, parse_body("chat", msgspec.json.encode(request)), timeouts)


async def through(dispatcher: Dispatcher, asked: Ask) -> bytes:
    """The answer, or the events, whichever the request asks for."""
    if not asked.body.stream:
        return (await forward(dispatcher, asked)).body
    async with forward_stream(dispatcher, asked) as events:
        return b"".join([event async for event in events])


async def test_a_chat_goes_through_with_unknown_fields_untouched(
    upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    answered = await forward(dispatcher, ask(upstream.url, top_k=7, future={"deep": [1, None]}))
    assert msgspec.json.decode(answered.body)["model"] == "alias"
    sent = upstream.requests[0].json
    assert (sent["model"], sent["top_k"], sent["future"]) == ("acme/Upstream-7B", 7, {"deep": [1, None]})


@pytest.mark.parametrize(
    ("behaviour", "status", "kind", "code"),
    [
        (
            Behaviour(status=400, code="context_length_exceeded"),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (Behaviour(status=401), 502, "server_error", 502),
        (Behaviour(status=404), 404, "not_found_error", "model_not_found"),
        (Behaviour(status=429), 429, "rate_limit_error", 429),
        (Behaviour(status=500), 500, "server_error", 500),
        (Behaviour(do="queued"), 503, "server_error", "model_queued"),
        (Behaviour(do="reset"), 502, "server_error", 502),
        (Behaviour(do="html"), 502, "server_error", 502),
        (Behaviour(do="stall"), 504, "server_error", "timeout"),
    ],
    ids=lambda value: f"{value.do}{value.status}" if isinstance(value, Behaviour) else None,
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_openais_shape(
    behaviour: Behaviour,
    status: int,
    kind: str,
    code: str | int,
    stream: bool,
    upstream: FakeUpstream,
    dispatcher: Dispatcher,
) -> None:
    upstream.script.append(behaviour)
    asked = ask(upstream.url, stream=stream, timeouts=Timeouts(total=0.5, gap=0.5))
    with pytest.raises(UpstreamFailed) as caught:
        await through(dispatcher, asked)
    rendered, _, body = render_error(caught.value)
    error = msgspec.json.decode(body)["error"]
    assert (rendered, error["type"], error["code"]) == (status, kind, code)
    assert set(error) == {"message", "type", "param", "code"}
    assert "127.0.0.1" not in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unreachable_server_is_a_503(stream: bool, dispatcher: Dispatcher) -> None:
    asked = ask(f"http://127.0.0.1:{closed_port()}/v1", stream=stream)
    with pytest.raises(UpstreamFailed) as caught:
        await through(dispatcher, asked)
    assert caught.value.status == 503


async def test_a_stream_hides_the_usage_it_asked_for(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    async with forward_stream(dispatcher, ask(upstream.url, stream=True)) as events:
        raw = b"".join([event async for event in events])
        streaming = events.streaming
    assert upstream.requests[0].json["stream_options"] == {"include_usage": True}
    assert raw.endswith(b"data: [DONE]\n\n")
    assert b'"usage":{' not in raw
    assert b"Upstream-7B" not in raw
    assert b'"model":"alias"' in raw
    assert isinstance(streaming.usage, Usage)
    assert streaming.failed is None


async def test_a_caller_who_asks_sees_the_usage(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    asked = ask(upstream.url, stream=True, stream_options={"include_usage": True})
    raw = await through(dispatcher, asked)
    assert raw.count(b'"usage":{') == 1


@pytest.mark.parametrize(
    ("do", "status", "message"),
    [
        ("stream-reset", 502, "broke"),
        ("stream-close", 502, "broke"),
        ("stream-error", 500, "alias at [address] fell over"),
        ("stream-stall", 504, "nothing more of it came in time"),
    ],
)
async def test_an_error_in_mid_stream_ends_it_with_an_error_event(
    do: str, status: int, message: str, upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    upstream.script.append(Behaviour(do=do, message=f"acme/Upstream-7B at 127.0.0.1:{upstream.port} fell over"))
    asked = ask(upstream.url, stream=True, timeouts=Timeouts(total=10, gap=0.3))
    async with forward_stream(dispatcher, asked) as events:
        *good, last = b"".join([event async for event in events]).removesuffix(b"\n\n").split(b"\n\n")
        streaming = events.streaming
    assert len(good) == 3
    error = msgspec.json.decode(last.removeprefix(b"data: "))["error"]
    assert message in error["message"]
    assert b"127.0.0.1" not in last
    assert b"[DONE]" not in last
    assert streaming.failed is not None
    assert streaming.failed.status == status
    assert streaming.usage is None
    assert streaming.failed.cost_unknown  # the model had run


async def test_a_client_that_leaves_closes_the_stream_upstream(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(Behaviour(do="stream-stall"))
    began = asyncio.Event()

    async def read() -> None:
        async with forward_stream(dispatcher, ask(upstream.url, stream=True)) as events:
            async for _ in events:
                began.set()

    client = asyncio.create_task(read())
    async with asyncio.timeout(5):
        await began.wait()
        assert dispatcher.in_flight["canonical", "interactive"] == 1
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        gone = await upstream.gone.get()
    assert gone.gone_at is not None
    assert dispatcher.in_flight["canonical", "interactive"] == 0


async def test_leaving_a_stream_early_closes_it_upstream(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(Behaviour(do="drip", gap=0.2))
    async with forward_stream(dispatcher, ask(upstream.url, stream=True)) as events:
        async for _ in events:
            break
    async with asyncio.timeout(5):
        await upstream.gone.get()


async def test_a_whole_stream_keeps_its_connection(
    upstream: FakeUpstream, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REST_SECONDS", 0.0)
    for _ in range(3):
        async with forward_stream(dispatcher, ask(upstream.url, stream=True)) as events:
            assert [event async for event in events][-1].endswith(b"data: [DONE]\n\n")
        rested = asyncio.Event()
        asyncio.get_running_loop().call_later(0, rested.set)
        await rested.wait()
    assert upstream.opened == 1


async def test_the_stand_in_streams_too(dispatcher: Dispatcher) -> None:
    asked = ask("http://unused", stream=True)
    here = Model(id="m", type="chat", routes=(Route(id="here", kind="standin", model="inside", latency=0.05),))
    raw = await through(dispatcher, Ask("chat", here, asked.body, asked.timeouts))
    assert b"stand-in" in raw
    assert b"inside" not in raw
    assert raw.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("behaviour", "status", "wait"),
    [
        (Behaviour(status=429, retry_after="17"), 429, "17"),
        (Behaviour("queued", retry_after="90"), 503, "90"),
        (Behaviour("queued", retry_after="-3"), 503, "120"),  # two minutes where what it asks for makes no sense
        (Behaviour(status=503, retry_after="2.5"), 503, "3"),
        (Behaviour(status=503), 503, None),
    ],
)
async def test_the_caller_learns_how_long_to_wait(
    behaviour: Behaviour,
    status: int,
    wait: str | None,
    stream: bool,
    upstream: FakeUpstream,
    dispatcher: Dispatcher,
) -> None:
    upstream.script.append(behaviour)
    with pytest.raises(UpstreamFailed) as raised:
        await through(dispatcher, ask(upstream.url, stream=stream))
    answered, headers, _ = render_error(raised.value)
    assert (answered, headers.get("retry-after")) == (status, wait)
