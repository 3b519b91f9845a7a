"""Servers that speak Anthropic's and Gemini's APIs over real HTTP, for tests: each hands out what a test puts in.

`async with Vendor() as server: server.script.append(Given(...))`; `server.asked` holds what came in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web


@dataclass(frozen=True)
class Asked:
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Given:
    """One answer: a JSON body, or the bytes of a stream in pieces, the last one once `hold` is set."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Sequence[bytes] | None = None
    hold: asyncio.Event | None = None


class Vendor:
    def __init__(self) -> None:
        self.script: deque[Given] = deque()
        self.asked: list[Asked] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Vendor:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read())
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(Asked(request.path, dict(request.query), headers, body))
        given = self.script.popleft()
        if given.stream is None:
            payload = msgspec.json.encode(given.body)
            return web.Response(
                body=payload, status=given.status, headers=dict(given.headers), content_type="application/json"
            )
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for index, piece in enumerate(given.stream):
            if given.hold is not None and index == len(given.stream) - 1:
                await given.hold.wait()
            await response.write(piece)
        await response.write_eof()
        return response


def sse(*events: Mapping[str, Any], named: bool = False) -> list[bytes]:
    """Events as bytes; `named` with Anthropic's `event:` line."""
    frames = []
    for event in events:
        head = b"event: %b\n" % event["type"].encode() if named else b""
        frames.append(head + b"data: " + msgspec.json.encode(event) + b"\n\n")
    return frames
