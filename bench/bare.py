"""The yardstick of the drain: a bare loop of the gateway's HTTP client that POSTs the same bodies.

Answers are read and dropped: nothing is queued, judged or stored. Prints the CPU seconds of one pass over the bodies.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time

import aiohttp
import uvloop
from multidict import CIMultiDict
from yarl import URL

from bench.bodies import chat_bodies

_WARM_UP = 1_000


async def post_all(session: aiohttp.ClientSession, url: URL, bodies: list[bytes], at_once: int) -> None:
    left = iter(bodies)
    headers = CIMultiDict({"Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "bench"})
    timeout = aiohttp.ClientTimeout(total=600, connect=10)

    async def one_after_the_other() -> None:
        for body in left:
            async with session.post(
                url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                assert response.status == 200
                await response.read()

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))


async def measure(url: str, count: int, at_once: int) -> float:
    bodies = chat_bodies(count)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "User-Agent"),
    )
    async with session:
        await post_all(session, URL(url), bodies[:_WARM_UP], at_once)
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 10, 10)
        began = time.process_time()
        await post_all(session, URL(url), bodies, at_once)
        return time.process_time() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--core", type=int, help="to stay on")
    given = parser.parse_args()
    if given.core is not None:
        os.sched_setaffinity(0, [given.core])
    print(uvloop.run(measure(given.url, given.count, given.at_once)))
