"""Whether reading stays flat: one batch and a page of the list, with 100 batches of 50,000 requests, some running.

Latency at the gateway against the same with 100 batches of 10 requests, and the rows that the two queries read, by
EXPLAIN ANALYZE.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import aiohttp

from bench.bodies import request_lines
from bench.figures import Figure, main, median_of, ratios
from bench.fill import copy_batches
from bench.processes import upstream
from bench.stage import Stage, stage
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "read.sql")
_PAGE = 100
_RUNNING = {"batch_model_concurrency": 8}


async def measure(options: argparse.Namespace) -> list[Figure]:
    async with upstream(latency=0.5) as model, stage(fsync=False) as on:
        models = on.models(model.url)
        intake = await on.intake(models)
        lines = request_lines(options.requests)
        little, much = await on.submit(intake, lines[:10]), await on.submit(intake, lines)
        await copy_batches(on, little, options.batches)
        async with on.gateway("all", models, **_RUNNING) as running:
            many = f"{running.url}/v1/batches?limit={_PAGE}"
            empty = [await _latency(on, url, options.calls) for url in (f"{running.url}/v1/batches/{little.id}", many)]
            await copy_batches(on, much, options.batches)
            full = [await _latency(on, url, options.calls) for url in (f"{running.url}/v1/batches/{much.id}", many)]
            rows = [
                await _rows_read(on, "get_batches", [much.id], None, None),
                await _rows_read(on, "list_batches", on.principal.account_id, None, _PAGE + 1),
            ]
    return [
        Figure("reading: rows read for one batch", rows[0], "rows", goal=300, reach="at most"),
        Figure(f"reading: rows read for a page of {_PAGE}", rows[1], "rows", goal=300, reach="at most"),
        median_of("reading: one batch, full over empty", ratios(full[0], empty[0])),
        median_of(f"reading: a page of {_PAGE}, full over empty", ratios(full[1], empty[1])),
        median_of("GET one batch, full", [seconds * 1e3 for seconds in full[0]], "ms"),
        median_of("GET a page, full", [seconds * 1e3 for seconds in full[1]], "ms"),
    ]


async def _latency(on: Stage, url: str, calls: int) -> list[float]:
    """Sorted seconds of each call, one after the other."""
    seconds = []
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {on.key}"}) as http:
        for _ in range(calls):
            began = time.perf_counter()
            async with http.get(url) as response:
                assert response.status == 200
                await response.read()
            seconds.append(time.perf_counter() - began)
    return sorted(seconds)


async def _rows_read(on: Stage, name: str, *arguments: object) -> int:
    async with on.database.connection() as conn:
        plan = await conn.fetchval("explain (analyze, format json) " + _Q[name], *arguments)
    return _rows(json.loads(plan)[0]["Plan"])


def _rows(node: dict[str, Any]) -> int:
    """Rows that the leaves of a plan read, those that a filter threw away included."""
    below = node.get("Plans", [])
    if below:
        return sum(map(_rows, below))
    read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int(read * node["Actual Loops"])


if __name__ == "__main__":
    main(__doc__, measure, batches=100, requests=50_000, calls=200)
