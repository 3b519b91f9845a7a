"""How busy a cap of 64 is kept: the mean of requests in flight, measured at an upstream that answers in 100 ms.

Only the steady state counts: from two seconds after the start until the queue is nearly empty.
"""

from __future__ import annotations

import argparse
import asyncio

from bench.bodies import request_lines
from bench.figures import Figure, main, median_of
from bench.processes import Upstream, upstream
from bench.stage import Stage, stage
from ebbtide.batches.intake import Intake

LATENCY = 0.1
_SETTLED = 2.0


async def measure(options: argparse.Namespace) -> list[Figure]:
    # What one steady state needs, and a second more at either end.
    lines = request_lines(int(options.cap / LATENCY * (options.seconds + _SETTLED + 1)))
    async with upstream(LATENCY) as model, stage() as on:
        models = on.models(model.url)
        intake = await on.intake(models)
        async with on.gateway("worker", models, batch_model_concurrency=options.cap):
            busy = [await _busy(on, intake, model, lines, options) for _ in range(options.runs)]
    return [median_of("slots: busy share of the cap", [share / options.cap for share in busy], goal=0.97)]


async def _busy(on: Stage, intake: Intake, model: Upstream, lines: list[bytes], options: argparse.Namespace) -> float:
    job = await on.submit(intake, lines)
    await asyncio.sleep(_SETTLED)
    first = await model.stats()
    await asyncio.sleep(options.seconds)
    last = await model.stats()
    await on.reached(job.id, "sealed")
    return (last.busy - first.busy) / (last.now - first.now)


if __name__ == "__main__":
    main(__doc__, measure, cap=64, seconds=10.0, runs=3)
