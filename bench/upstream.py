"""The stand-in upstream of the benches, a process of its own: answers chat completions at next to no cost.

`python -m bench.upstream --latency 0.1` prints its URL. It reads no JSON; its answers are some hundred that differ, a
stream where the body asks for one: 20 chunks with text, each written by itself, its usage and `[DONE]`.
`GET /stats` tells `requests`, `now`, and `busy`: the seconds that requests have been in flight, summed over them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import sys
import time
from typing import cast

import msgspec
import uvloop

from bench.bodies import MODEL, WORDS

_ANSWERS = 256
_USAGE = {"prompt_tokens": 120, "completion_tokens": 50, "total_tokens": 170}
_CHUNKS = 20
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream" *: *true')


def make_answers(count: int) -> list[bytes]:
    """Chat completions of about 600 bytes, whole HTTP responses."""
    rng = random.Random(7)
    return [_response(msgspec.json.encode(_completion(rng, number))) for number in range(count)]


def _completion(rng: random.Random, number: int) -> dict[str, object]:
    text = " ".join(rng.choices(WORDS, k=40))
    return {
        "id": f"chatcmpl-{number:032x}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": _USAGE,
    }


def _response(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def make_stream() -> list[bytes]:
    """The pieces of a streamed chat completion's HTTP response."""
    frames = [_frame({"role": "assistant", "content": ""})]
    frames += [_frame({"content": f" {WORDS[number % len(WORDS)]}"}) for number in range(_CHUNKS)]
    frames.append(_frame({}, finish_reason="stop"))
    frames.append(_event(_chunk_object() | {"choices": [], "usage": _USAGE}))
    return [_STREAM_HEAD, *(_chunked(frame) for frame in frames), _chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"]


def _frame(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event(_chunk_object() | {"choices": [choice]})


def _chunk_object() -> dict[str, object]:
    kind = "chat.completion.chunk"
    return {"id": f"chatcmpl-{0:032x}", "object": kind, "created": 1_760_000_000, "model": MODEL}


def _event(value: object) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Counted:
    """What all connections share."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.answers = make_answers(_ANSWERS)
        self.stream = make_stream()
        self.requests = 0
        self.in_flight = 0
        self._busy = 0.0
        self._since = time.monotonic()

    def move(self, change: int) -> None:
        now = time.monotonic()
        self._busy += self.in_flight * (now - self._since)
        self._since = now
        self.in_flight += change

    def stats(self) -> bytes:
        self.move(0)
        return _response(msgspec.json.encode({"requests": self.requests, "now": self._since, "busy": self._busy}))


class Connection(asyncio.Protocol):
    """One client; a request must be answered before the next one comes."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        data = self._pending + data if self._pending else data
        end = data.find(b"\r\n\r\n")
        if end >= 0 and (data.startswith(b"GET") or len(data) >= end + 4 + _length(data[:end])):
            self._pending = b""
            self._serve(data)
        else:
            self._pending = data

    def _serve(self, data: bytes) -> None:
        counted = self._counted
        if data.startswith(b"GET /stats"):
            self._write(counted.stats())
            return
        counted.requests += 1
        if _STREAM.search(data):
            self._begin_stream()
            return
        answer = counted.answers[counted.requests % _ANSWERS]
        if not counted.latency:
            self._write(answer)
            return
        counted.move(1)
        asyncio.get_running_loop().call_later(counted.latency, self._answer, answer)

    def _begin_stream(self) -> None:
        pieces = iter(self._counted.stream)
        loop = asyncio.get_running_loop()

        def write_next() -> None:
            piece = next(pieces, None)
            if piece is not None and self._transport is not None:
                self._write(piece)
                loop.call_later(self._counted.latency, write_next) if self._counted.latency else loop.call_soon(
                    write_next
                )

        write_next()

    def _answer(self, answer: bytes) -> None:
        self._counted.move(-1)
        self._write(answer)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found.group(1)) if found else 0


async def serve(latency: float, port: int) -> None:
    counted = Counted(latency)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counted), "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(given.latency, given.port))
