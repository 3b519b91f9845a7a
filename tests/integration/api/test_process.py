"""A gateway as a real process: what it prints, how it stops, and a socket handed down by a parent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fake_upstream import Behaviour, FakeUpstream

from ebbtide.storage.pool import Database

pytestmark = pytest.mark.processes
CHAT = {"model": "chat-1", "messages": [{"role": "user", "content": "Hello"}]}


class NotStarted(Exception):
    """The process ended before it was ready; what it wrote to standard error."""


class Process:
    """`ebbtide serve` with its greeting read. `output` is what standard output held at the end."""

    def __init__(self, process: asyncio.subprocess.Process, greeting: str) -> None:
        self.process = process
        self.greeting = greeting

    @property
    def url(self) -> str:
        found = re.search(r"answers at (\S+)", self.greeting)
        assert found is not None, self.greeting
        return found[1]

    @property
    def key(self) -> str | None:
        found = re.search(r"(ebb-\S{43})", self.greeting)
        return found and found[1]

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 20)


Serve = Callable[..., Awaitable[Process]]


@pytest.fixture
async def serve(database_url: str, listen_url: str, models: Path) -> AsyncIterator[Serve]:
    """Start a gateway process and wait for its greeting; whatever still runs is killed at the end."""
    processes: list[asyncio.subprocess.Process] = []

    async def start(*, fds: tuple[int, ...] = (), **environ: str) -> Process:
        settings = {
            "EBBTIDE_DATABASE_URL": database_url,
            "EBBTIDE_DATABASE_LISTEN_URL": listen_url,
            "EBBTIDE_MODELS": str(models),
            "EBBTIDE_PORT": "0",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ebbtide", "serve",
            env=os.environ | settings | environ,
            pass_fds=fds,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None
        try:
            greeting = await asyncio.wait_for(process.stdout.readuntil(b"at once.\n"), 30)
        except asyncio.IncompleteReadError as error:
            _, told = await process.communicate()
            raise NotStarted(told.decode()) from error
        return Process(process, greeting.decode())

    yield start
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


async def ask(http: aiohttp.ClientSession, url: str, key: str | None, **more: Any) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    async with http.post(f"{url}/v1/chat/completions", json=CHAT | more, headers=headers) as response:
        await response.read()
        return response.status


async def test_the_first_start_prints_a_key_that_works_and_the_next_prints_none(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    first = await serve()
    assert first.key is not None
    assert "chat-1 (chat)" in first.greeting
    assert await ask(http, first.url, first.key) == 200
    first.tell(signal.SIGTERM)
    assert await first.ended() == 0
    second = await serve()
    assert second.key is None
    assert await ask(http, second.url, first.key) == 200
    second.tell(signal.SIGINT)
    assert await second.ended() == 0


async def test_a_stop_lets_what_runs_finish_and_takes_nothing_new(
    serve: Serve, http: aiohttp.ClientSession, upstream: FakeUpstream
) -> None:
    gateway = await serve()
    upstream.script.append(Behaviour(latency=1.0))
    asking = asyncio.create_task(ask(http, gateway.url, gateway.key))
    await upstream.arrived.get()
    gateway.tell(signal.SIGTERM)
    assert await asking == 200
    assert await gateway.ended() == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(http, gateway.url, gateway.key)


async def test_a_second_signal_stops_at_once(serve: Serve, http: aiohttp.ClientSession, upstream: FakeUpstream) -> None:
    gateway = await serve()
    upstream.script.append(Behaviour("stall"))
    asking = asyncio.create_task(ask(http, gateway.url, gateway.key))
    await upstream.arrived.get()
    gateway.tell(signal.SIGTERM)
    gateway.tell(signal.SIGTERM)
    gateway.tell(signal.SIGINT)
    assert await asking == 503
    assert await gateway.ended() == 0


async def test_an_inherited_socket_is_served(serve: Serve, http: aiohttp.ClientSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        gateway = await serve(fds=(listener.fileno(),), EBBTIDE_SOCKET_FD=str(listener.fileno()))
        assert gateway.url == f"http://127.0.0.1:{port}"
        assert await ask(http, gateway.url, gateway.key) == 200
        gateway.tell(signal.SIGTERM)
        assert await gateway.ended() == 0


async def test_a_port_in_use_is_said_in_words(serve: Serve, database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        with pytest.raises(NotStarted, match=f"^ebbtide: Cannot listen on 127.0.0.1 port {port}"):
            await serve(EBBTIDE_PORT=port)


async def test_a_gateway_whose_worker_dies_ends_so_that_it_is_started_again(serve: Serve, database: Database) -> None:
    process = await serve(EBBTIDE_WORKER_LEASE_SECONDS="3", EBBTIDE_WORKER_HEARTBEAT_SECONDS="0.1")
    async with database.connection() as conn:
        await conn.execute("alter table workers rename to of_another_shape")
    assert await process.ended() == 1
