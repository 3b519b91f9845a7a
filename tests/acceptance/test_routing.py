"""Two gateways, three upstreams, one of them killed and revived under traffic: nobody sees an error that a route could
have prevented.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import models_file
from tests.processes import GatewayProcess, Processes, holds

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

EVERY = 0.01  # seconds between two requests to one gateway: 200 a second to both


@pytest.fixture
async def upstreams() -> AsyncIterator[list[FakeUpstream]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(FakeUpstream(latency=0.02)) for _ in range(3)]


@pytest.fixture
def models(upstreams: list[FakeUpstream], tmp_path: Path) -> Path:
    routes = [
        {"id": f"u{number}", "kind": "vllm", "base_url": server.url, "model": "m"}
        for number, server in enumerate(upstreams)
    ]
    return models_file(tmp_path, {"id": "chat-1", "routes": routes})


class Traffic:
    """Requests to one gateway, plain and streamed in turn; `errors` is what it got besides good answers."""

    def __init__(self, gateway: GatewayProcess, key: str) -> None:
        self.sent = 0
        self.errors: list[str] = []
        self._gateway = gateway
        self._key = key
        self._stop = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as running:
            while not self._stop.is_set():
                running.create_task(self._ask(stream=self.sent % 2 == 1))
                self.sent += 1
                await asyncio.sleep(EVERY)

    def stop(self) -> None:
        self._stop.set()

    async def _ask(self, *, stream: bool) -> None:
        body = {"model": "chat-1", "messages": [{"role": "user", "content": "Hello"}], "stream": stream}
        answer = await self._gateway.call("POST", "/v1/chat/completions", key=self._key, json=body)
        if answer.status != 200 or (stream and not answer.body.endswith(b"data: [DONE]\n\n")):
            self.errors.append(f"{answer.status} {answer.body[:200]!r}")


async def test_a_killed_upstream_costs_nobody_an_error(processes: Processes, upstreams: list[FakeUpstream]) -> None:
    settings = {"ROUTING_BREAKER_SECONDS": "1", "ROUTING_AFFINITY_MINUTES": "0"}
    gateways = [await processes.start("--role", "api", **settings) for _ in range(2)]
    traffic = [Traffic(gateway, processes.key) for gateway in gateways]
    killed = upstreams[1]
    async with asyncio.TaskGroup() as running:
        for one in traffic:
            running.create_task(one.run())
        await holds(lambda: all(server.count > 50 for server in upstreams))
        await killed.stop()
        await holds(lambda: all("circuit_opened" in gateway.log for gateway in gateways))
        sent = [one.sent for one in traffic]
        await holds(lambda: all(one.sent > before + 150 for one, before in zip(traffic, sent, strict=True)))
        assert not any("circuit_closed" in gateway.log for gateway in gateways)
        await killed.start()
        await holds(lambda: all("circuit_closed" in gateway.log for gateway in gateways))
        count = killed.count
        await holds(lambda: killed.count > count + 50)
        for one in traffic:
            one.stop()
    assert [one.errors for one in traffic] == [[], []]
    for gateway in gateways:
        assert (gateway.log.count("circuit_opened"), gateway.log.count("circuit_closed")) == (1, 1)
