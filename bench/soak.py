"""Minutes of mixed load on two gateways and a worker: does anything grow, leak or get lost? A missed goal is a failure.

`python -m bench.soak --minutes 30`. One of two upstreams dies and comes back all the time. Memory is compared over the
time after a warm-up; tasks, sockets and database connections at rest before the load with those at rest after it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from bench.bodies import MODEL
from bench.figures import Figure, main
from bench.processes import MIB, Process, upstream
from bench.soak_load import CHAT, SLOW, Load, Receiver, Slow
from bench.stage import PRICES, Stage, stage

_TOKEN = "a-token-for-the-soak"
_SETTINGS = {
    "ebbtide_metrics_token": _TOKEN,
    "batch_webhook_allow_private_targets": "on",
    "user_concurrency_internal": 1_000,
    "daily_quota_usd_internal": 100_000,
}
_EVERY = 2.0
_PATIENCE = 120.0


@dataclass
class Watched:
    """The processes under load and what they held at each look."""

    processes: Mapping[str, Process]
    gateways: Sequence[str]
    on: Stage
    http: aiohttp.ClientSession
    memory: dict[str, list[int]] = field(default_factory=dict)

    async def watch(self) -> None:
        while True:
            for name, process in self.processes.items():
                self.memory.setdefault(name, []).append(process.memory())
            await asyncio.sleep(_EVERY)

    async def held(self) -> dict[str, float]:
        """What is held now that should be let go: tasks of the gateways, sockets, connections to the database."""
        tasks = [await self._tasks(url) for url in self.gateways]
        async with self.on.database.connection() as conn:
            count = "select count(*) from pg_stat_activity where datname = current_database()"
            connections = int(await conn.fetchval(count))
        files = sum(process.open_files() for process in self.processes.values())
        return {"tasks": sum(tasks), "open files beside database connections": files - connections}

    async def at_rest(self, before: Mapping[str, float], slack: int) -> dict[str, float]:
        """What is held once it is no more than before, or at the end of patience."""
        until = time.monotonic() + _PATIENCE
        while True:
            now = await self.held()
            if time.monotonic() > until or all(now[name] <= before[name] + slack for name in before):
                return now
            await asyncio.sleep(1)

    async def _tasks(self, url: str) -> float:
        async with self.http.get(f"{url}/metrics", headers={"Authorization": f"Bearer {_TOKEN}"}) as answer:
            text = await answer.text()
        families = text_string_to_metric_families(text)
        return sum(sample.value for family in families for sample in family.samples if sample.name == "ebbtide_tasks")

    def growth(self, name: str) -> float:
        """The median of the last third over that of the middle one: the first is the warm-up."""
        seen = self.memory[name]
        third = len(seen) // 3
        return statistics.median(seen[-third:]) / statistics.median(seen[third : 2 * third])


async def measure(options: argparse.Namespace) -> list[Figure]:
    async with AsyncExitStack() as stack:
        on = await stack.enter_async_context(stage())
        slow, receiver = Slow(), Receiver()
        steady = await stack.enter_async_context(upstream(0.02))
        port = await stack.enter_async_context(_flapping())
        here = await stack.enter_async_context(_serving(slow, receiver))
        models = _models(on.folder, [steady.url, f"http://127.0.0.1:{port}"], here)
        one = await stack.enter_async_context(on.gateway("api", models, **_SETTINGS))
        two = await stack.enter_async_context(on.gateway("api", models, **_SETTINGS))
        worker = await stack.enter_async_context(on.gateway("worker", models, **_SETTINGS))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        processes = {"first gateway": one.process, "second gateway": two.process, "worker": worker.process}
        watched = Watched(processes, [one.url, two.url], on, http)
        return await _soak(watched, Load([one.url, two.url], on.key, slow, http), (receiver, here), options)


async def _soak(watched: Watched, load: Load, hooks: tuple[Receiver, str], options: argparse.Namespace) -> list[Figure]:
    receiver, here = hooks
    for _ in range(20):  # connections that stay are there before the look
        await load.plain()
    headers = {"Authorization": f"Bearer {load.key}"}
    async with load.http.put(f"{load.urls[0]}/v1/batch_webhook", json={"url": f"{here}/hook"}, headers=headers) as put:
        assert put.status == 200, await put.text()
    await load.fill()
    await asyncio.sleep(5)
    before = await watched.held()
    watching = asyncio.create_task(watched.watch())
    await load.run(options.minutes * 60, options.rate)
    watching.cancel()
    lost = await _lost_rows(watched.on, load)
    missing = await _missing_events(receiver, load)
    after = await watched.at_rest(before, slack=4)
    _tell(watched, load)
    return [
        *(_growth(name, watched.growth(name)) for name in watched.processes),
        *(_at_most(f"soak: {name} more at rest than before", after[name] - before[name], 4) for name in before),
        _at_most("soak: log rows that differ from requests sent", lost, 0),
        _at_most("soak: webhook events missing or sent twice", missing, 0),
        _at_most("soak: plain requests refused or failed", _failed(load, "plain"), 0),
        _at_most("soak: other surprises", sum(load.surprises.values()), 0),
        Figure("soak: interactive requests sent", sum(load.sent.values()), ""),
        Figure("soak: batches ended", load.batches, ""),
    ]


def _growth(name: str, growth: float) -> Figure:
    return Figure(f"soak: memory of the {name}, last third over middle", growth, "", goal=1.1, reach="at most")


def _at_most(name: str, value: float, most: float) -> Figure:
    return Figure(name, value, "", goal=most, reach="at most")


def _failed(load: Load, kind: str) -> int:
    return sum(count for how, count in load.sent.items() if how.startswith(f"{kind} ") and how != f"{kind} 200")


async def _lost_rows(on: Stage, load: Load) -> float:
    """By how many rows the request log differs from what was sent, once nothing more comes."""
    sent, until = sum(load.sent.values()), time.monotonic() + 30
    while True:
        async with on.database.connection() as conn:
            rows = int(await conn.fetchval("select count(*) from api_logs where source = 'interactive'"))
            tries = int(await conn.fetchval("select count(*) from api_logs where source = 'batch'"))
        if (rows == sent and tries >= load.items) or time.monotonic() > until:
            return abs(rows - sent) + max(0, load.items - tries)
        await asyncio.sleep(0.5)


async def _missing_events(receiver: Receiver, load: Load) -> float:
    until = time.monotonic() + 60
    while len(receiver.got) < load.batches and time.monotonic() < until:  # noqa: ASYNC110  it is filled by requests
        await asyncio.sleep(0.2)
    return abs(load.batches - len(receiver.got)) + sum(count - 1 for count in receiver.got.values())


def _tell(watched: Watched, load: Load) -> None:
    for name, seen in watched.memory.items():
        shown = " ".join(f"{one / MIB:.0f}" for one in seen[:: max(1, len(seen) // 12)])
        print(f"  memory of the {name} in MiB: {shown}")
    print(f"  requests: {dict(load.sent)}")
    if load.surprises:
        print(f"  surprises: {dict(load.surprises)}")


@asynccontextmanager
async def _flapping() -> AsyncIterator[int]:
    """An upstream on one port that is away a third of the time."""
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def flap() -> None:
        port = 0
        while True:
            async with upstream(0.02, port) as model:
                port = int(model.url.rpartition(":")[2])
                if not ready.done():
                    ready.set_result(port)
                await asyncio.sleep(20)
            await asyncio.sleep(10)

    flapping = asyncio.create_task(flap())
    yield await ready
    flapping.cancel()
    await asyncio.gather(flapping, return_exceptions=True)


@asynccontextmanager
async def _serving(slow: Slow, receiver: Receiver) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post(CHAT, slow.answer)
    app.router.add_post("/hook", receiver.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def _models(folder: Path, urls: Sequence[str], slow: str) -> Path:
    routes = [
        {"id": f"bench-{number}", "kind": "openai", "model": MODEL, "base_url": f"{url}/v1"}
        for number, url in enumerate(urls)
    ]
    slow_route = {"id": "slow", "kind": "openai", "model": SLOW, "base_url": f"{slow}/v1"}
    models = [
        {"id": MODEL, "type": "chat", "pricing": PRICES, "routes": routes},
        {"id": SLOW, "type": "chat", "routes": [slow_route]},
    ]
    path = folder / "models.yaml"
    path.write_bytes(msgspec.json.encode({"models": models}))
    return path


if __name__ == "__main__":
    main(__doc__, measure, strict=True, minutes=30.0, rate=20.0)
