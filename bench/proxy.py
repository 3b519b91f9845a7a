"""What the gateway adds to a chat completion, in CPU of one process, and how other gateways do with the same.

Plain and as a stream of 20 chunks; keys, quotas, concurrency limits, access log and request log are on. The same
server framework that answers by itself is the yardstick of the cost, LiteLLM's proxy and Portkey's gateway those of the
ratios: requests per CPU-second over theirs, all against one upstream, taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import aiohttp
import msgspec

from bench.bodies import chat_bodies
from bench.figures import Figure, main, median_of, ratios
from bench.peers import Peer, entered
from bench.processes import running, upstream
from bench.stage import stage

_PATH = "/v1/chat/completions"
_AT_ONCE = 32
_PEERS = ("LiteLLM", "Portkey")
_GOALS = {("LiteLLM", "plain"): 20.0, ("LiteLLM", "streamed"): 15.0, ("Portkey", "plain"): 2.0}
_SETTINGS = {"daily_quota_usd_internal": 100_000, "user_concurrency_internal": 1_000}


@dataclass
class Runs:
    """Seconds of CPU a request, run by run, of each gateway and kind of request."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, name: str, kind: str, seconds: float) -> None:
        self.seconds.setdefault((name, kind), []).append(seconds)

    def of(self, name: str, kind: str) -> list[float]:
        return self.seconds[name, kind]


async def measure(options: argparse.Namespace) -> list[Figure]:
    runs = Runs()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(upstream())
        on = await stack.enter_async_context(stage())
        gate = await stack.enter_async_context(on.logging_gateway("api", on.models(model.url), **_SETTINGS))
        direct = await stack.enter_async_context(running(["-m", "bench.direct"]))
        those = {
            "framework": Peer(direct.said, direct),
            "Ebbtide": Peer(gate.url, gate.process, {"Authorization": f"Bearer {on.key}"}),
        }
        for name in _PEERS if options.peers else ():
            if (peer := await entered(stack, name, model.url)) is not None:
                those[name] = peer
        http = await stack.enter_async_context(aiohttp.ClientSession())
        for turn in range(options.runs + 1):
            for name, peer in those.items():
                await _measure(http, (name, peer), options.requests, None if turn == 0 else runs)
    return [*_added(runs), *_compared(runs, those)]


async def _measure(http: aiohttp.ClientSession, one: tuple[str, Peer], requests: int, runs: Runs | None) -> None:
    """One turn of a gateway, plain and streamed; without `runs` it is only to warm up."""
    name, peer = one
    kinds = {"plain": requests, "streamed": requests // 4}
    for kind, count in kinds.items():
        if kind == "streamed" and name not in ("Ebbtide", "LiteLLM"):
            continue
        count = max(_AT_ONCE, count // 10 if name == "LiteLLM" or runs is None else count)  # it takes its time
        seconds = await _cpu(http, peer, _bodies(count, kind))
        if runs is not None:
            runs.add(name, kind, seconds)


def _bodies(count: int, kind: str) -> list[bytes]:
    bodies = chat_bodies(count)
    if kind == "plain":
        return bodies
    return [msgspec.json.encode(msgspec.json.decode(body) | {"stream": True}) for body in bodies]


async def _cpu(http: aiohttp.ClientSession, peer: Peer, bodies: list[bytes]) -> float:
    """Seconds of the gateway's CPU a request, 32 at a time."""
    left = iter(bodies)
    headers: Mapping[str, str] = {"Content-Type": "application/json", **peer.headers}

    async def one_after_the_other() -> None:
        for body in left:
            async with http.post(peer.url + _PATH, data=body, headers=headers) as response:
                assert response.status == 200, await response.text()
                await response.read()

    before = peer.process.cpu()
    await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))
    return (peer.process.cpu() - before) / len(bodies)


def _added(runs: Runs) -> list[Figure]:
    through, direct = runs.of("Ebbtide", "plain"), runs.of("framework", "plain")
    added = [(a - b) * 1e3 for a, b in zip(through, direct, strict=True)]
    return [
        median_of("proxy: CPU added to a chat completion", added, "ms", goal=0.5, reach="at most"),
        median_of("CPU of the gateway", [seconds * 1e3 for seconds in through], "ms/request"),
        median_of("CPU of the gateway, a stream of 20 chunks", _ms(runs.of("Ebbtide", "streamed")), "ms/request"),
        median_of("CPU of the framework alone", _ms(direct), "ms/request"),
    ]


def _compared(runs: Runs, those: Mapping[str, Peer]) -> list[Figure]:
    figures = []
    for name in _PEERS:
        for kind in ("plain", "streamed"):
            if name not in those or (name, kind) not in runs.seconds:
                continue
            title = f"proxy: requests per CPU-second over {name}'s, {kind}"
            times = ratios(runs.of(name, kind), runs.of("Ebbtide", kind))
            figures.append(median_of(title, times, goal=_GOALS[name, kind]))
    return figures


def _ms(seconds: list[float]) -> list[float]:
    return [one * 1e3 for one in seconds]


if __name__ == "__main__":
    main(__doc__, measure, requests=4_000, runs=3, peers=1)
