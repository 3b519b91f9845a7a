"""An OpenAI-compatible server that misbehaves on request, for tests and benches.

In a test: `async with FakeUpstream() as upstream: ... upstream.url`. By hand or from a bench:
`python -m tests.fake_upstream --port 9100 --latency 0.1`. It answers as the built-in stand-in model does, unless told
otherwise: by `upstream.decide` (a function of the request), by `upstream.script` (one Behaviour per request, in order),
or by the request itself, whose last message (or input) may begin with `behave:status=503,retry-after=2`.
One asyncio.Protocol over httptools, so that resets and half answers are possible and the plain case is fast.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httptools
import msgspec
from tests import native_responses

from ebbtide.dispatch import standin

DO = (
    "answer",
    "reset",  # RST before a byte of the answer
    "close",  # FIN before a byte of the answer
    "half",  # the head and half of the body, then RST
    "half-close",  # the head and half of the body, then FIN
    "stall",  # never a byte
    "stall-body",  # the head and half of the body, then nothing
    "drip",  # the body in `pieces` pieces, `gap` seconds apart
    "error200",  # an error body under status 200
    "html",
    "bad-utf8",
    "truncated",
    "nan",
    "array",
    "empty",
    "huge",  # an answer padded to `size` bytes, with its length announced
    "huge-chunked",  # the same without a length
    "redirect",
    "queued",  # 503 model_queued
    "pretty",  # a good answer on many lines
    "gzip",  # bytes under a content-encoding nobody asked for
    "stream-reset",  # some events, then RST
    "stream-close",  # some events, then FIN and no [DONE]
    "stream-stall",
    "stream-error",  # some events, then an error event
    "unmarked",  # a whole stream without its [DONE]
)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What to do with one request. Times in seconds, sizes in bytes."""

    do: str = "answer"
    status: int = 200
    retry_after: str | None = None
    message: str = "The fake upstream was told to fail."
    code: str | int | None = None
    latency: float | None = None
    gap: float = 0.02
    pieces: int = 5
    size: int = 1_000_000
    usage: bool = True
    cached: int = 0  # tokens of the prompt that it says it had cached

    def __post_init__(self) -> None:
        if self.do not in DO:
            raise ValueError(f"no such behaviour: {self.do}")


PLAIN = Behaviour()


@dataclass(slots=True)
class Received:
    """One request as it came in. `gone_at`: when the client broke off before the answer was whole."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    done_at: float | None = None
    gone_at: float | None = None
    _json: Any = field(default=None, repr=False)

    @property
    def json(self) -> Any:
        if self._json is None:
            self._json = msgspec.json.decode(self.body)
        return self._json

    @property
    def text(self) -> str:
        """The last message, or the input."""
        given = self.json
        messages = given.get("messages")
        value = messages[-1].get("content") if messages else given.get("input")
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, str) else ""


class FakeUpstream:
    """The server. `requests` holds everything received, `peak` the most in flight at once, `gone` those broken off."""

    def __init__(
        self, *, latency: float = 0.0, models: Iterable[str] = ("test-model",), record: bool = True, port: int = 0
    ) -> None:
        self.latency = latency
        self.models = list(models)
        self.record = record
        self.port = port
        self.decide: Callable[[Received], Behaviour | None] | None = None
        self.script: deque[Behaviour] = deque()
        self.requests: list[Received] = []
        self.count = 0
        self.in_flight = 0
        self.peak = 0
        self.connections: set[_Connection] = set()
        self.opened = 0
        self.gone: asyncio.Queue[Received] = asyncio.Queue()
        self.arrived: asyncio.Queue[Received] = asyncio.Queue()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> FakeUpstream:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def hurry(self) -> None:
        """Answer now what only waits for its latency."""
        for connection in list(self.connections):
            connection.hurry()

    async def start(self) -> None:
        """Listen on `port`, or on a free one that is then kept over a stop and a start."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
            for connection in list(self.connections):
                connection.abort()
            await self._server.wait_closed()
            self._server = None

    def behaviour(self, request: Received) -> Behaviour:
        if self.decide is not None:
            decided = self.decide(request)
            if decided is not None:
                return decided
        if self.script:
            return self.script.popleft()
        if b"behave:" in request.body and request.text.startswith("behave:"):
            return parse_behaviour(request.text.split()[0].removeprefix("behave:"))
        return PLAIN


def parse_behaviour(text: str) -> Behaviour:
    """`do=drip,gap=0.1,pieces=3` as a Behaviour; a part without `=` is the `do`."""
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, has_value, value = part.partition("=")
        name = name.replace("-", "_") if has_value else "do"
        value = value if has_value else part
        if name in ("status", "pieces", "size", "cached"):
            given[name] = int(value)
        elif name in ("latency", "gap"):
            given[name] = float(value)
        elif name == "usage":
            given[name] = value != "none"
        else:
            given[name] = value
    return replace(PLAIN, **given)


def closed_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after the other."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._current: Received | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by name
        self._upstream.opened += 1
        self._upstream.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.connections.discard(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._current is not None:
            request, self._current = self._current, None
            request.gone_at = time.monotonic()
            self._upstream.in_flight -= 1
            self._upstream.gone.put_nowait(request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def eof_received(self) -> None:
        return None

    def abort(self, *, rst: bool = False) -> None:
        """Close at once; `rst` makes the client see a connection reset instead of an end."""
        if self._transport is None:
            return
        if rst:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def hurry(self) -> None:
        """Answer now, where the request only waits for its latency."""
        if self._timer is not None and self._current is not None:
            self._timer.cancel()
            self._send_plain(self._current, self._upstream.behaviour(self._current))

    # The parser's side.

    def on_message_begin(self) -> None:
        self._path = b""
        self._headers = []
        self._body = []

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        upstream = self._upstream
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._headers}
        method = self._parser.get_method().decode()
        request = Received(method, self._path.decode(), headers, b"".join(self._body), time.monotonic())
        self._current = request
        upstream.count += 1
        upstream.in_flight += 1
        upstream.peak = max(upstream.peak, upstream.in_flight)
        if upstream.record:
            upstream.requests.append(request)
            upstream.arrived.put_nowait(request)
        self._answer(request)

    # Answers.

    def _answer(self, request: Received) -> None:
        if request.method == "GET":
            self._send_models()
            return
        behaviour = self._upstream.behaviour(request)
        latency = self._upstream.latency if behaviour.latency is None else behaviour.latency
        simple = behaviour is PLAIN or behaviour.do == "answer"
        if simple and b'"stream":true' not in request.body.replace(b" ", b""):
            if latency:
                self._timer = asyncio.get_running_loop().call_later(latency, self._send_plain, request, behaviour)
            else:
                self._send_plain(request, behaviour)
            return
        self._task = asyncio.get_running_loop().create_task(self._act(request, behaviour, latency))

    def _send_models(self) -> None:
        entries = [{"id": name, "object": "model", "created": 1, "owned_by": "fake"} for name in self._upstream.models]
        self._send(200, msgspec.json.encode({"object": "list", "data": entries}))

    def _send_plain(self, request: Received, behaviour: Behaviour) -> None:
        if behaviour.status >= 400:
            self._send_error(behaviour)
        else:
            self._send(behaviour.status, _body(request, behaviour))

    def _send_error(self, behaviour: Behaviour) -> None:
        code: str | int = behaviour.status if behaviour.code is None else behaviour.code
        error = {"message": behaviour.message, "type": "fake_error", "param": None, "code": code}
        extra = "" if behaviour.retry_after is None else f"retry-after: {behaviour.retry_after}\r\n"
        self._send(behaviour.status, msgspec.json.encode({"error": error}), extra=extra)

    def _send(self, status: int, body: bytes, *, extra: str = "", kind: str = "application/json") -> None:
        self._write(_head(status, len(body), extra, kind) + body)
        self._finish()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _finish(self) -> None:
        request, self._current = self._current, None
        self._task = self._timer = None
        if request is not None:
            request.done_at = time.monotonic()
            self._upstream.in_flight -= 1

    async def _act(self, request: Received, behaviour: Behaviour, latency: float) -> None:
        if latency:
            await asyncio.sleep(latency)
        action = behaviour.do
        streams = request.json.get("stream") is True
        if action in ("reset", "close"):
            self.abort(rst=action == "reset")
        elif action == "stall":
            await asyncio.Event().wait()
        elif streams and behaviour.status == 200 and action not in _BODIES:
            await self._stream(request, behaviour)
        elif action in ("half", "half-close", "stall-body"):
            await self._half(request, behaviour)
        elif action == "drip":
            await self._drip(request, behaviour)
        else:
            self._send_odd(request, behaviour)

    async def _half(self, request: Received, behaviour: Behaviour) -> None:
        body = _body(request, behaviour)
        self._write(_head(200, len(body)) + body[: len(body) // 2])
        if behaviour.do == "stall-body":
            await asyncio.Event().wait()
        await asyncio.sleep(behaviour.gap)
        self.abort(rst=behaviour.do == "half")

    async def _drip(self, request: Received, behaviour: Behaviour) -> None:
        body = _body(request, behaviour)
        self._write(_head(200, len(body)))
        size = -(-len(body) // behaviour.pieces)
        for at in range(0, len(body), size):
            await asyncio.sleep(behaviour.gap)
            self._write(body[at : at + size])
        self._finish()

    async def _stream(self, request: Received, behaviour: Behaviour) -> None:
        native = request.path.endswith("/responses")
        frames = native_responses.frames(request.body) if native else _frames(request)
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        broken = behaviour.do.startswith("stream-")
        if behaviour.do == "unmarked":
            frames = frames[:-1]
        for frame in frames[:3] if broken else frames:
            self._write(_chunk(frame))
            if behaviour.do == "drip" or broken:
                await asyncio.sleep(behaviour.gap)
        if behaviour.do == "stream-stall":
            await asyncio.Event().wait()
        if behaviour.do in ("stream-reset", "stream-close"):
            self.abort(rst=behaviour.do == "stream-reset")
            return
        if behaviour.do == "stream-error":
            told = b'data: {"error":{"message":"%b","code":500}}\n\n' % behaviour.message.encode()
            self._write(_chunk(native_responses.failed_frame(request.body, behaviour.message) if native else told))
        self._write(b"0\r\n\r\n")
        self._finish()

    def _send_odd(self, request: Received, behaviour: Behaviour) -> None:
        action = behaviour.do
        if action == "error200":
            error = {"message": behaviour.message, "type": "fake_error", "param": None, "code": behaviour.code}
            self._send(200, msgspec.json.encode({"error": error}))
        elif action == "redirect":
            self._send(302, b"", extra="location: http://127.0.0.1:9/elsewhere\r\n")
        elif action == "queued":
            self._send_error(replace(behaviour, status=503, code="model_queued"))
        elif action == "huge-chunked":
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
            self._write(head + _chunk(_body(request, behaviour)) + b"0\r\n\r\n")
            self._finish()
        elif action == "html":
            self._send(200, b"<!doctype html><title>Gateway</title>", kind="text/html")
        elif action == "gzip":
            self._send(200, b"\x1f\x8b\x08\x00 not really", extra="content-encoding: gzip\r\n")
        elif action in _BODIES:
            self._send(200, _body(request, behaviour))
        else:
            self._send_plain(request, behaviour)


_BODIES = frozenset({"error200", "html", "bad-utf8", "truncated", "nan", "array", "empty", "huge", "huge-chunked"}) | {
    "redirect",
    "queued",
    "pretty",
    "gzip",
}


def _frames(request: Received) -> list[bytes]:
    return standin.chunks(request.body, request.json["model"])


def _body(request: Received, behaviour: Behaviour) -> bytes:
    if request.path.endswith("/responses"):
        return _changed(native_responses.answer(request.body), behaviour)
    target = "embeddings" if request.path.endswith("/embeddings") else "chat"
    whole = standin.answer("embeddings" if target == "embeddings" else "chat", request.body, request.json["model"])
    if behaviour.cached or not behaviour.usage:
        members = msgspec.json.decode(whole)
        members["usage"]["prompt_tokens_details"] = {"cached_tokens": behaviour.cached}
        if not behaviour.usage:
            del members["usage"]
        whole = msgspec.json.encode(members)
    return _changed(whole, behaviour)


def _changed(whole: bytes, behaviour: Behaviour) -> bytes:
    action = behaviour.do
    if action == "bad-utf8":
        return whole.replace(b"model", b"mo\xff\xfedel")
    if action == "truncated":
        return whole[: len(whole) // 2]
    if action == "nan":
        return whole.replace(b'"logprobs":null', b'"logprobs":NaN')
    if action == "array":
        return b"[1,2]"
    if action == "empty":
        return b""
    if action in ("huge", "huge-chunked"):
        return whole[:-1] + b',"padding":"' + b"x" * behaviour.size + b'"}'
    if action == "pretty":
        return msgspec.json.format(whole, indent=2)
    return whole


def _head(status: int, length: int, extra: str = "", kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{extra}\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(arguments: argparse.Namespace) -> None:
    upstream = FakeUpstream(
        latency=arguments.latency, models=arguments.model or ["test-model"], record=False, port=arguments.port
    )
    await upstream.start()
    sys.stdout.write(f"{upstream.url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="An OpenAI-compatible server for tests and benches.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--model", action="append", help="a model id to list (repeatable)")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
