"""A server that closes a kept connection behind its answer: no request is lost on it, and none is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ebbtide.catalog.model import Route
from ebbtide.dispatch import connections
from ebbtide.dispatch.outcome import Timeouts
from ebbtide.dispatch.send import Broken, Opened, Reply, Request, Sender

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: "


@dataclass
class Server:
    """Answers the first request of each connection, a stream where one is asked for, and at any other closes."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks += filter(None, [asyncio.current_task()])
        await self._read(reader)
        writer.write(HEAD + (b"text/event-stream" if self.bodies[-1] == b"[]" else b"text/plain") + b"\r\n\r\n{}")
        asked_again = asyncio.create_task(self._read(reader))
        told = asyncio.create_task(self.closing.wait())
        await asyncio.wait([asked_again, told], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        writer.close()
        await asyncio.wait([asked_again, told])

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.bodies.append(await reader.readexactly(2))
        except asyncio.IncompleteReadError:
            return


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server
        server.closing.set()
        await asyncio.gather(*server.tasks)


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with Sender() as sender:
        yield sender


def request(server: Server, body: bytes = b"{}") -> Request:
    return Request(Route(id="r", kind="openai", model="m", base_url=server.url), "chat", body, Timeouts(total=10), 1000)


async def read_stream(sender: Sender, server: Server) -> None:
    async with sender.stream(request(server, b"[]")) as opened:
        assert isinstance(opened, Opened)
        assert b"".join([piece async for piece in opened.pieces]) == b"{}"


async def test_nothing_is_sent_right_behind_a_stream(
    server: Server, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REST_SECONDS", 60.0)
    await read_stream(sender, server)
    await read_stream(sender, server)
    assert await sender.post(request(server)) == Reply(200, b"{}")
    assert server.bodies == [b"[]", b"[]", b"{}"]


async def test_a_connection_that_has_rested_is_used_again(
    server: Server, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REST_SECONDS", 0.0)
    await read_stream(sender, server)
    rested = asyncio.Event()
    asyncio.get_running_loop().call_later(0, rested.set)
    await rested.wait()
    assert await sender.post(request(server)) == Broken("reset", sent=True)  # it may have been begun
    assert server.bodies == [b"[]", b"{}"]
