"""Every way an upstream call can go, over real HTTP, and the row of the retry rules it lands in."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.fake_upstream import Behaviour, FakeUpstream, closed_port

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.values import Target, Usage
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import (
    Answered,
    Call,
    ErrorCode,
    Failed,
    FailureKind,
    Timeouts,
    charge_unknown,
    is_retryable,
)
from ebbtide.dispatch.send import Sender

SECRET = "sk-very-secret-key"
TIMEOUTS = Timeouts(connect=0.5, total=1.0)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as server:
        yield server


@pytest.fixture
async def dispatcher() -> AsyncIterator[Dispatcher]:
    async with Sender() as sender:
        yield Dispatcher(sender, timeouts=TIMEOUTS)


def route(url: str, name: str = "r", **changes: Any) -> Route:
    return Route(
        id=name, kind="vllm", model="acme/Upstream-7B", base_url=url, api_keys=(SECRET,), **{"weight": 1.0, **changes}
    )


def call(*routes: Route, content: str = "hello", target: Target = "chat", **changes: Any) -> Call:
    body: dict[str, Any] = {"model": "mine", "extra": {"kept": 1}}
    if target == "chat":
        body["messages"] = [{"role": "user", "content": content}]
    else:
        body["input"] = content
    model = Model(id="canonical", type="chat", routes=routes)
    return Call(target, model, msgspec.json.encode(body), "mine", "interactive", **changes)


@dataclass(frozen=True)
class Row:
    """What one behaviour must become."""

    do: Behaviour
    kind: FailureKind
    status: int
    code: ErrorCode
    repeated: bool
    unknown: bool = False
    retry_after: float | None = None
    usage: bool = False


def status(number: int, **changes: Any) -> Behaviour:
    return Behaviour(status=number, **changes)


def do(name: str, **changes: Any) -> Behaviour:
    return Behaviour(do=name, **changes)


ROWS = [
    Row(do("reset"), "reset", 502, "upstream_error", True, unknown=True),
    Row(do("close"), "reset", 502, "upstream_error", True, unknown=True),
    Row(do("half"), "reset", 502, "upstream_error", True, unknown=True),
    Row(do("half-close"), "reset", 502, "upstream_error", True, unknown=True),
    Row(do("stall"), "timeout", 504, "timeout", False, unknown=True),
    Row(do("stall-body"), "timeout", 504, "timeout", False, unknown=True),
    Row(do("drip", gap=0.3, pieces=9), "timeout", 504, "timeout", False, unknown=True),
    Row(status(400), "status", 400, "invalid_request", False),
    Row(status(401), "status", 401, "upstream_error", False),
    Row(status(402), "status", 402, "invalid_request", False),
    Row(status(403), "status", 403, "forbidden", False),
    Row(status(404), "status", 404, "model_not_found", False),
    Row(status(408), "status", 408, "upstream_error", True),
    Row(status(409), "status", 409, "invalid_request", False),
    Row(status(413), "status", 413, "invalid_request", False),
    Row(status(422), "status", 422, "invalid_request", False),
    Row(status(425), "status", 425, "upstream_error", True),
    Row(status(429, retry_after="7"), "status", 429, "rate_limited", True, retry_after=7.0),
    Row(status(429, retry_after="-1"), "status", 429, "rate_limited", True),
    Row(status(500), "status", 500, "upstream_error", True),
    Row(status(502), "status", 502, "upstream_error", True),
    Row(status(503, retry_after="1e9"), "status", 503, "service_unavailable", True, retry_after=168 * 3600.0),
    Row(status(503, retry_after="rubbish"), "status", 503, "service_unavailable", True),
    Row(status(504), "timeout", 504, "timeout", False, unknown=True),
    Row(status(529), "status", 529, "upstream_error", True),
    Row(do("queued"), "model_queued", 503, "service_unavailable", True, retry_after=120.0),
    Row(do("queued", retry_after="45"), "model_queued", 503, "service_unavailable", True, retry_after=45.0),
    Row(do("queued", retry_after="NaN"), "model_queued", 503, "service_unavailable", True, retry_after=120.0),
    Row(do("error200"), "status", 502, "upstream_error", True),
    Row(do("error200", code=429), "status", 429, "rate_limited", True),
    Row(do("error200", code=400), "status", 400, "invalid_request", False),
    Row(do("html"), "malformed", 502, "upstream_error", False, unknown=True),
    Row(do("bad-utf8"), "malformed", 502, "upstream_error", False, usage=True),
    Row(do("nan"), "malformed", 502, "upstream_error", False, usage=True),
    Row(do("truncated"), "malformed", 502, "upstream_error", False, unknown=True),
    Row(do("array"), "malformed", 502, "upstream_error", False, unknown=True),
    Row(do("empty"), "malformed", 502, "upstream_error", False, unknown=True),
    Row(do("gzip"), "malformed", 502, "upstream_error", False, unknown=True),
    Row(status(202), "malformed", 502, "upstream_error", False, unknown=True),
    Row(do("redirect"), "redirect", 502, "upstream_error", False),
    Row(do("huge", size=50_000), "too_large", 502, "result_too_large", False, unknown=True),
    Row(do("huge-chunked", size=50_000), "too_large", 502, "result_too_large", False, unknown=True),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.do.do}-{row.do.status}-{row.do.retry_after}-{row.do.code}")
async def test_each_lands_in_its_row(row: Row, upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(row.do)
    failed = await dispatcher.call(call(route(upstream.url), max_bytes=20_000))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status, failed.code) == (row.kind, row.status, row.code)
    assert is_retryable(failed) is row.repeated
    assert failed.cost_unknown is row.unknown
    assert failed.retry_after == row.retry_after
    assert (failed.usage is not None) is row.usage
    assert (failed.sent, failed.route) == (True, "r")
    assert upstream.count == 1
    assert not any(secret in failed.message for secret in (SECRET, "127.0.0.1", str(upstream.port), "Upstream-7B"))
    assert dispatcher.in_flight["canonical", "interactive"] == 0

    # Whatever happened, the next call is an ordinary one.
    assert isinstance(await dispatcher.call(call(route(upstream.url))), Answered)


async def test_a_refused_connection_was_never_sent(dispatcher: Dispatcher) -> None:
    failed = await dispatcher.call(call(route(f"http://127.0.0.1:{closed_port()}/v1")))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status, failed.code) == ("refused", 503, "service_unavailable")
    assert (failed.sent, failed.cost_unknown, is_retryable(failed)) == (False, False, True)
    assert "127.0.0.1" not in failed.message


async def test_an_unknown_host_was_never_sent(dispatcher: Dispatcher) -> None:
    failed = await dispatcher.call(call(route("http://no-such-host.invalid/v1"), timeouts=Timeouts(connect=5)))
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.sent, is_retryable(failed)) == ("refused", False, True)
    assert "invalid" not in failed.message


@contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel answers no further attempt."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.append(client)
        yield port
        for client in waiting:
            client.close()


async def test_a_connect_timeout_is_no_timeout_of_the_call(dispatcher: Dispatcher) -> None:
    with full_port() as port:
        failed = await dispatcher.call(
            call(route(f"http://127.0.0.1:{port}/v1"), timeouts=Timeouts(connect=0.2, total=30))
        )
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status, failed.code) == ("connect_timeout", 503, "service_unavailable")
    assert (failed.sent, failed.cost_unknown, is_retryable(failed)) == (False, False, True)


async def test_a_slow_answer_that_keeps_moving_is_an_answer(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(do("drip", gap=0.05, pieces=6))
    assert isinstance(await dispatcher.call(call(route(upstream.url))), Answered)


async def test_an_answer_names_the_model_as_asked_and_tells_what_it_used(
    upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    upstream.script.append(do("pretty"))
    answered = await dispatcher.call(call(route(upstream.url), content="four times four"))
    assert isinstance(answered, Answered)
    body = msgspec.json.decode(answered.body)
    assert body["model"] == "mine"
    assert b"\n" not in answered.body
    assert b"Upstream-7B" not in answered.body
    assert answered.usage == Usage(4, 0, body["usage"]["completion_tokens"], 0)
    assert (answered.route, answered.status) == ("r", 200)

    (received,) = upstream.requests
    assert received.path == "/v1/chat/completions"
    assert received.json == {
        "model": "acme/Upstream-7B",
        "extra": {"kept": 1},
        "messages": [{"role": "user", "content": "four times four"}],
    }
    assert received.headers["authorization"] == f"Bearer {SECRET}"
    assert received.headers["accept-encoding"] == "identity"
    assert received.headers["content-type"] == "application/json"
    assert "cookie" not in received.headers


async def test_embeddings_and_an_answer_without_usage(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    answered = await dispatcher.call(call(route(upstream.url), target="embeddings", content="12345678"))
    assert isinstance(answered, Answered)
    assert answered.usage == Usage(2, 0, 0, 0)
    assert upstream.requests[0].path == "/v1/embeddings"
    upstream.script.append(Behaviour(usage=False))
    silent = await dispatcher.call(call(route(upstream.url)))
    assert isinstance(silent, Answered)
    assert silent.usage is None


async def test_the_upstream_is_taken_out_of_its_own_words(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    said = f"acme/Upstream-7B at http://127.0.0.1:{upstream.port}/v1 refused {SECRET}: too long\0"
    upstream.script.append(Behaviour(status=400, message=said, code="context_length_exceeded"))
    failed = await dispatcher.call(call(route(upstream.url)))
    assert isinstance(failed, Failed)
    assert failed.message.startswith("mine at [address] refused [key]: too long")
    assert "\0" not in failed.message
    assert failed.upstream_code == "context_length_exceeded"


async def test_a_refused_gateway_key_says_nothing_of_it(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(Behaviour(status=401, message="Incorrect API key sk-very", code="invalid_api_key"))
    failed = await dispatcher.call(call(route(upstream.url)))
    assert isinstance(failed, Failed)
    assert "sk-very" not in failed.message
    assert failed.upstream_code is None


async def test_cancelling_a_call_closes_it_upstream(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    for behaviour in (do("stall"), do("stall-body")):
        upstream.script.append(behaviour)
        running = asyncio.create_task(dispatcher.call(call(route(upstream.url), timeouts=Timeouts())))
        received = await upstream.arrived.get()
        assert dispatcher.in_flight["canonical", "interactive"] == 1
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(5):
            assert await upstream.gone.get() is received
        assert dispatcher.in_flight["canonical", "interactive"] == 0


async def test_a_connection_is_used_again(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    for _ in range(5):
        assert isinstance(await dispatcher.call(call(route(upstream.url))), Answered)
    upstream.script.append(status(500))
    await dispatcher.call(call(route(upstream.url)))
    assert isinstance(await dispatcher.call(call(route(upstream.url))), Answered)
    assert upstream.opened == 1


async def test_many_at_once_and_the_peak(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.latency = 0.2
    outcomes = await asyncio.gather(*(dispatcher.call(call(route(upstream.url))) for _ in range(40)))
    assert all(isinstance(outcome, Answered) for outcome in outcomes)
    assert upstream.peak == 40


# Several routes ------------------------------------------------------------------------------------------------------

ALWAYS_FIRST = 1e12


@pytest.mark.parametrize("first", [status(401), status(429), do("queued")], ids=["401", "429", "queued"])
async def test_what_an_upstream_refused_to_begin_goes_to_the_next_route(
    first: Behaviour, upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    async with FakeUpstream() as other:
        upstream.script.append(first)
        two = call(route(upstream.url, "a", weight=ALWAYS_FIRST), route(other.url, "b", weight=1e-12))
        answered = await dispatcher.call(two)
        assert isinstance(answered, Answered)
        assert (answered.route, upstream.count, other.count) == ("b", 1, 1)


async def test_what_was_never_sent_goes_to_the_next_route(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    closed = route(f"http://127.0.0.1:{closed_port()}/v1", "a", weight=ALWAYS_FIRST)
    answered = await dispatcher.call(call(closed, route(upstream.url, "b", weight=1e-12)))
    assert isinstance(answered, Answered)
    assert answered.route == "b"


@pytest.mark.parametrize(
    "first", [status(400), do("html"), do("redirect"), status(504)], ids=lambda b: f"{b.do}{b.status}"
)
async def test_what_will_not_pass_goes_nowhere_else(
    first: Behaviour, upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    async with FakeUpstream() as other:
        upstream.script.append(first)
        two = call(route(upstream.url, "a", weight=ALWAYS_FIRST), route(other.url, "b", weight=1e-12))
        assert isinstance(await dispatcher.call(two), Failed)
        assert (upstream.count, other.count) == (1, 0)


async def test_the_first_error_is_kept_unless_a_later_one_is_final(
    upstream: FakeUpstream, dispatcher: Dispatcher
) -> None:
    closed = route(f"http://127.0.0.1:{closed_port()}/v1", "a", weight=ALWAYS_FIRST)
    two = call(closed, route(upstream.url, "b", weight=1e-12))
    told: list[tuple[str, str | None, bool, bool]] = []
    for behaviour in (status(500), status(400), do("reset")):
        upstream.script.append(behaviour)
        failed = await dispatcher.call(two)
        assert isinstance(failed, Failed)
        told.append((failed.kind, failed.route, failed.sent, failed.cost_unknown))
    assert told == [("refused", "a", True, False), ("status", "b", True, False), ("refused", "a", True, False)]
    assert (failed.others.calls, failed.others.unknown, charge_unknown(failed)) == (1, True, True)


async def test_all_routes_share_the_time_of_the_call(upstream: FakeUpstream) -> None:
    closed = route(f"http://127.0.0.1:{closed_port()}/v1", "a", weight=ALWAYS_FIRST)
    two = call(closed, route(upstream.url, "b", weight=1e-12), timeouts=Timeouts(total=10))
    for spent, asked in ((10.0, 0), (9.0, 1)):
        async with Sender() as sender:
            outcome = await Dispatcher(sender, monotonic=_spends(spent)).call(two)
        assert isinstance(outcome, Answered) is bool(asked)
        assert upstream.count == asked


async def test_a_second_route_gets_only_what_is_left(upstream: FakeUpstream) -> None:
    upstream.script.append(do("stall"))
    closed = route(f"http://127.0.0.1:{closed_port()}/v1", "a", weight=ALWAYS_FIRST)
    two = call(closed, route(upstream.url, "b", weight=1e-12), timeouts=Timeouts(total=1_000))
    async with Sender() as sender, asyncio.timeout(10):
        failed = await Dispatcher(sender, monotonic=_spends(999.9)).call(two)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.route) == ("timeout", "b")


def _spends(seconds: float) -> Callable[[], float]:
    """A clock whose time is over when the first route has been tried."""
    times = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(seconds))
    return lambda: next(times)


async def test_a_large_body_and_answer_leave_the_event_loop_alone(
    upstream: FakeUpstream, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are taken apart in a thread, and come out as small ones do."""
    threads: list[str] = []
    to_thread = asyncio.to_thread

    async def noted(work: Any, *args: Any, **named: Any) -> Any:
        threads.append(work.__name__)
        return await to_thread(work, *args, **named)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    upstream.script.append(do("huge", size=400_000))
    answered = await dispatcher.call(call(route(upstream.url), content="x" * 400_000))
    assert isinstance(answered, Answered)
    assert msgspec.json.decode(answered.body)["model"] == "mine"
    assert threads == ["body_for", "judge"]


async def test_a_batch_never_leaves_its_routes(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    cloud = route(upstream.url, "cloud", deployment_type="provider_api")
    failed = await dispatcher.call(msgspec.structs.replace(call(cloud), source="batch"))
    assert isinstance(failed, Failed)
    assert (failed.status, failed.code, failed.sent) == (400, "batch_route_unavailable", False)
    assert upstream.count == 0


async def test_the_built_in_stand_in_answers_in_its_time(dispatcher: Dispatcher) -> None:
    here = Route(id="here", kind="standin", model="inside", latency=0.05)
    began = time.monotonic()
    answered = await dispatcher.call(msgspec.structs.replace(call(here), source="batch"))
    assert isinstance(answered, Answered)
    assert time.monotonic() - began >= 0.05
    assert msgspec.json.decode(answered.body)["model"] == "mine"
    assert answered.usage is not None


async def test_a_failure_is_told_to_the_log_without_any_words(upstream: FakeUpstream, dispatcher: Dispatcher) -> None:
    upstream.script.append(status(503))
    with capture_logs() as told:
        await dispatcher.call(call(route(upstream.url, "gpu-a")))
    [line] = told
    where = {"route": "gpu-a", "model": "canonical"}
    assert line == {
        **where,
        "event": "upstream_failed",
        "log_level": "warning",
        "kind": "status",
        "status": 503,
        "count": 1,
    }
