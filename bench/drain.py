"""How much of the bare HTTP client's speed is left once every item is claimed, judged, stored and paid for.

Items per CPU-second of one worker process, over those of a bare loop that POSTs the same bodies to the same upstream.
PostgreSQL and the upstream are other processes and do not count; where there is more than one core, the measured
process has the last one and they have the others.
"""

from __future__ import annotations

import argparse
import os

from bench.bodies import request_lines
from bench.figures import Figure, main, median_of, ratios
from bench.processes import output_of, upstream
from bench.stage import Gateway, Stage, stage
from ebbtide.batches.intake import Intake

_WARM_UP = 1_000


async def measure(options: argparse.Namespace) -> list[Figure]:
    lines = request_lines(options.items)
    bare, worker = [], []
    *others, last = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, others or [last])  # of this process, and of what it starts
    async with upstream() as model, stage() as on:
        models = on.models(model.url)
        intake = await on.intake(models)
        async with on.gateway("worker", models, batch_model_concurrency=options.at_once) as running:
            os.sched_setaffinity(running.process.pid, [last])
            await on.reached((await on.submit(intake, lines[:_WARM_UP])).id, "sealed")
            for _ in range(options.runs):
                bare.append(await _bare(model.url, last, options) / options.items)
                worker.append(await _drain(on, intake, running, lines) / options.items)
    return [
        median_of("drain: worker over a bare loop of its client", ratios(bare, worker), goal=0.7),
        median_of("CPU of the bare loop", [seconds * 1e6 for seconds in bare], "µs/item"),
        median_of("CPU of the worker", [seconds * 1e6 for seconds in worker], "µs/item"),
    ]


async def _bare(url: str, core: int, options: argparse.Namespace) -> float:
    arguments = ["-m", "bench.bare", url + "/v1/chat/completions"]
    arguments += ["--count", str(options.items), "--at-once", str(options.at_once), "--core", str(core)]
    return float(await output_of(arguments))


async def _drain(on: Stage, intake: Intake, running: Gateway, lines: list[bytes]) -> float:
    before = running.process.cpu()
    await on.reached((await on.submit(intake, lines)).id, "sealed")
    return running.process.cpu() - before


if __name__ == "__main__":
    main(__doc__, measure, items=20_000, at_once=64, runs=3)
