"""An HTTPS server that receives webhooks, for tests: its certificate is from an authority of its own.

`async with Receiver(authority, "hooks.example") as receiver:` then `receiver.port`, `receiver.got`; what it answers is
`receiver.answers[path]`, 200 where nothing is written.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import trustme
from aiohttp import web
from multidict import CIMultiDictProxy

HANG = 0  # an "answer" that never comes


@dataclass(frozen=True)
class Got:
    """One delivery as it came in."""

    path: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def plain_headers(self) -> Mapping[str, str]:
        return dict(self.headers)


@dataclass
class Answer:
    """What comes back: a status (or HANG), and where to go instead."""

    status: int = 200
    location: str | None = None
    body: str = "a secret of the receiver"


@dataclass
class Receiver:
    """Answers as it is told, and keeps what came. With `authority` None it speaks plain HTTP."""

    authority: trustme.CA | None
    name: str
    got: list[Got] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    busy: int = 0
    busiest: int = 0

    async def __aenter__(self) -> Receiver:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._receive)
        self._arrived = asyncio.Condition()
        self._released = asyncio.Event()
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context())
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        await self._runner.cleanup()

    def url(self, path: str = "/hook") -> str:
        scheme = "http" if self.authority is None else "https"
        return f"{scheme}://{self.name}:{self.port}{path}"

    def release(self) -> None:
        """Let what hangs go on."""
        self._released.set()

    async def wait_for(self, count: int) -> list[Got]:
        """The deliveries so far, once there are `count`."""
        async with self._arrived, asyncio.timeout(20):
            await self._arrived.wait_for(lambda: len(self.got) >= count)
        return list(self.got)

    async def _receive(self, request: web.Request) -> web.Response:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            async with self._arrived:
                self.got.append(Got(request.path, request.headers, await request.read()))
                self._arrived.notify_all()
            answer = self.answers.get(request.path, Answer())
            if answer.status == HANG:
                await self._released.wait()
                return web.Response(status=200)
            headers = {} if answer.location is None else {"Location": answer.location}
            return web.Response(status=answer.status, text=answer.body, headers=headers)
        finally:
            self.busy -= 1

    def _context(self) -> ssl.SSLContext | None:
        if self.authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(self.name).configure_cert(context)
        return context


def write_authority(authority: trustme.CA, folder: Path) -> Path:
    """The authority's certificate as a file."""
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path
