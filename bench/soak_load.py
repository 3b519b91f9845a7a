"""The load of the soak: clients of every kind, paced, each counting what it sent and what it saw.

Plain and streamed requests, clients that hang up once an upstream has their request, batches, uploads, a webhook's
receiver. Every interactive request is counted once it is certain that the gateway took it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from bench.bodies import chat_body, create_body, request_lines
from bench.forms import FORM_TYPE, upload_form

SLOW = "bench-slow"
CHAT = "/v1/chat/completions"
_BATCH = 100
_FINAL = frozenset({"completed", "failed", "expired", "cancelled"})


@dataclass
class Slow:
    """An upstream that never answers, here in this process: it tells when a request has arrived, by its id."""

    arrived: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    async def answer(self, request: web.Request) -> web.Response:
        self.arrived[request.headers["X-Request-ID"]].set()
        await asyncio.sleep(300)
        return web.Response(status=503)


@dataclass
class Receiver:
    """Where the webhook's events go: their ids, each counted."""

    got: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: web.Request) -> web.Response:
        self.got[request.headers["webhook-id"]] += 1
        await request.read()
        return web.Response()


@dataclass
class Load:
    """Clients of two gateways. `sent` counts requests by how they ended for the client, `items` those of `batches`."""

    urls: list[str]
    key: str
    slow: Slow
    http: aiohttp.ClientSession
    sent: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    items: int = 0
    surprises: Counter[str] = field(default_factory=Counter)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _rng: random.Random = field(default_factory=lambda: random.Random(5))
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, seconds: float, rate: float) -> None:
        """All kinds of clients for so long; `rate` is that of plain requests, a second. Returns when all have ended."""
        clients = [
            *(self._repeat(self.plain, 4 / rate) for _ in range(4)),
            *(self._repeat(self.stream, 8 / rate) for _ in range(2)),
            self._repeat(self.leave_stream, 8 / rate),
            self._repeat(self.leave_plain, 8 / rate),
            self._repeat(self.batch, 2.0),
            self._repeat(self.upload, 2.0),
        ]
        running = [asyncio.create_task(client) for client in clients]
        await asyncio.sleep(seconds)
        self._stopped.set()
        await asyncio.gather(*running)

    async def plain(self) -> None:
        async with self._post(self._body()) as answer:
            await answer.read()
            self.sent[f"plain {answer.status}"] += 1

    async def stream(self) -> None:
        async with self._post(self._body(stream=True)) as answer:
            said = await answer.read()
            whole = said.endswith(b"[DONE]\n\n")
            self.sent[f"stream {answer.status}{'' if whole or answer.status != 200 else ' broken'}"] += 1

    async def leave_stream(self) -> None:
        """Hang up after the first piece."""
        async with self._post(self._body(stream=True)) as answer:
            await answer.content.readany()
            answer.close()
            self.sent["left a stream"] += 1

    async def leave_plain(self) -> None:
        """Hang up once the upstream has the request."""
        request_id = f"soak-{next(self._numbers)}"
        asking = asyncio.create_task(self._ask_slow(request_id))
        await self.slow.arrived[request_id].wait()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        del self.slow.arrived[request_id]
        self.sent["left a plain one"] += 1

    async def fill(self) -> None:
        """Two batches as large as the worker's cache of opened inputs, which then is as full as it gets."""
        for _ in range(2):
            batch = await self._ended_batch(request_lines(128, 250_000))
            await self._json("DELETE", f"/v1/batches/{batch['id']}")
            self.items += 128
            self.batches += 1

    async def batch(self) -> None:
        """Create one, see it end, read its results and delete it."""
        batch = await self._ended_batch(request_lines(_BATCH))
        self.items += _BATCH
        async with self.http.get(self._url(f"/v1/batches/{batch['id']}/output.jsonl"), headers=self._headers) as answer:
            if (await answer.read()).count(b"\n") != _BATCH:
                self.surprises["an export that is not whole"] += 1
        self.batches += 1
        await self._json("DELETE", f"/v1/batches/{batch['id']}")

    async def _ended_batch(self, lines: list[bytes]) -> Any:
        batch = await self._json("POST", "/v1/batches", create_body(lines))
        while batch["status"] not in _FINAL:
            await asyncio.sleep(0.5)
            batch = await self._json("GET", f"/v1/batches/{batch['id']}")
        counts = batch["request_counts"]
        if counts["completed"] != len(lines):
            self.surprises[f"a batch with {counts}"] += 1
        return batch

    async def upload(self) -> None:
        content = b"\n".join(request_lines(500)) + b"\n"
        form = {"Content-Type": FORM_TYPE}
        made = await self._json("POST", "/v1/files", upload_form(content), **form)
        async with self.http.get(self._url(f"/v1/files/{made['id']}/content"), headers=self._headers) as answer:
            if await answer.read() != content:
                self.surprises["a file that is another"] += 1
        await self._json("DELETE", f"/v1/files/{made['id']}")

    async def _repeat(self, one: Callable[[], Awaitable[None]], every: float) -> None:
        while not self._stopped.is_set():
            try:
                await one()
            except aiohttp.ClientError as error:
                self.surprises[f"{one.__name__}: {type(error).__name__}"] += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(every * self._rng.uniform(0.5, 1.5)):
                    await self._stopped.wait()

    async def _ask_slow(self, request_id: str) -> None:
        headers = self._headers | {"X-Request-ID": request_id}
        body = msgspec.json.encode(chat_body(self._rng, 600) | {"model": SLOW})
        async with self.http.post(self._url(CHAT), data=body, headers=headers) as answer:
            self.surprises[f"an answer of the slow upstream: {answer.status}"] += 1

    async def _json(self, method: str, path: str, data: bytes | None = None, **headers: str) -> Any:
        told = self._headers | headers
        async with self.http.request(method, self._url(path), headers=told, data=data) as answer:
            if answer.status != 200:
                raise aiohttp.ClientPayloadError(f"{method} {path} answered {answer.status}")
            return msgspec.json.decode(await answer.read())

    def _post(self, body: bytes) -> aiohttp.client._RequestContextManager:
        return self.http.post(self._url(CHAT), data=body, headers=self._headers)

    def _body(self, **more: object) -> bytes:
        return msgspec.json.encode(chat_body(self._rng, 600) | more)

    def _url(self, path: str) -> str:
        return self._rng.choice(self.urls) + path

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
