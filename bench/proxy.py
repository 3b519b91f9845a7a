"""What the gateway adds to a chat completion: CPU a request of one process, over the same server answering by itself.

With the API key looked at, the model chosen, the body checked, the upstream asked and its answer read.
"""

from __future__ import annotations

import argparse
import asyncio

import aiohttp

from bench.bodies import chat_bodies
from bench.figures import Figure, main, median_of
from bench.processes import Process, running, upstream
from bench.stage import stage

_PATH = "/v1/chat/completions"


async def measure(options: argparse.Namespace) -> list[Figure]:
    bodies = chat_bodies(options.requests)
    direct, through = [], []
    async with upstream() as model, stage() as on:
        gateway = on.gateway("api", on.models(model.url))
        async with gateway as gate, running(["-m", "bench.direct"]) as server:
            headers = {"Authorization": f"Bearer {on.key}", "Content-Type": "application/json"}
            async with aiohttp.ClientSession(headers=headers) as http:
                await _cpu(http, gate.url, gate.process, bodies[:500])
                await _cpu(http, server.said, server, bodies[:500])
                for _ in range(options.runs):
                    direct.append(await _cpu(http, server.said, server, bodies))
                    through.append(await _cpu(http, gate.url, gate.process, bodies))
    added = [(a - b) * 1e3 for a, b in zip(through, direct, strict=True)]
    return [
        median_of("proxy: CPU added to a chat completion", added, "ms", goal=0.5, reach="at most"),
        median_of("CPU of the gateway", [seconds * 1e3 for seconds in through], "ms/request"),
        median_of("CPU of the framework alone", [seconds * 1e3 for seconds in direct], "ms/request"),
    ]


async def _cpu(http: aiohttp.ClientSession, url: str, process: Process, bodies: list[bytes]) -> float:
    """Seconds of the process's CPU a request, 32 at a time."""
    left = iter(bodies)

    async def one_after_the_other() -> None:
        for body in left:
            async with http.post(url + _PATH, data=body) as response:
                assert response.status == 200, await response.text()
                await response.read()

    before = process.cpu()
    await asyncio.gather(*(one_after_the_other() for _ in range(32)))
    return (process.cpu() - before) / len(bodies)


if __name__ == "__main__":
    main(__doc__, measure, requests=5_000, runs=5)
