"""Whether a long queue makes work slower: claim and settle an item with 5,000,000 queued, over the same with 50,000.

Two databases on one server, 100 batches of 10 accounts in each. Claims and settles of both alternate, so that whatever
slows the machine slows both. Time is the database's and the worker's together; there is no upstream.
"""

from __future__ import annotations

import argparse
import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench.bodies import MODEL, request_lines
from bench.figures import Figure, main, median_of, ratios
from bench.fill import copy_batches
from bench.stage import Stage, stage, stage_beside
from ebbtide import ids
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.source import FixedSource
from ebbtide.clock import SystemClock
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered
from ebbtide.dispatch.send import Sender
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.worker.claim import Claimer
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.lease import Lease
from ebbtide.worker.money import Holdings
from ebbtide.worker.pace import Pace
from ebbtide.worker.settle import Settler
from ebbtide.worker.take import Round
from ebbtide.worker.verdicts import FinishedItem

BATCHES = 100
ACCOUNTS = 10
_ANSWER = b'{"id":"chatcmpl-1","object":"chat.completion","model":"bench-chat","choices":[],"usage":{}}' + b" " * 500


@dataclass
class Hands:
    """A worker's claims and settles on one database, by hand."""

    on: Stage
    catalog: Catalog
    settings: Settings
    worker_no: int
    started: list[Work] = field(default_factory=list)
    claim_seconds: list[float] = field(default_factory=list)
    settle_seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lanes = Lanes(self.started.append)
        source, settings = FixedSource(self.catalog), SettingsSource(self.settings)
        context = WorkerContext(self.on.database, source, settings, Dispatcher(Sender()), SystemClock())
        pace, holdings = Pace(), Holdings()
        self._model = self.catalog.resolve(MODEL)
        self._claimer = Claimer(context, self._lanes, pace, holdings)
        self._settler = Settler(context, pace, holdings, random.Random(1))
        self._settler.worker_no = self.worker_no

    async def turn(self) -> None:
        """One claim and the settle of all it gave; seconds by item."""
        began = time.perf_counter()
        await self._claimer.claim(Round(MODEL, self.worker_no, self.settings, SystemClock().now()))
        claimed = time.perf_counter()
        count = len(self.started)
        for work in self.started:
            answered = Answered(_ANSWER, Usage(120, 0, 50, 0), "bench")
            self._settler.put(FinishedItem(work, answered, self._model, ids.request_id(), 0.01))
        settling = time.perf_counter()
        await self._settler.flush()
        self.settle_seconds.append((time.perf_counter() - settling) / count)
        self.claim_seconds.append((claimed - began) / count)
        for work in self.started:
            self._lanes.lane(MODEL, work.batch.account_id).in_flight -= 1
        self.started.clear()

    @property
    def seconds(self) -> list[float]:
        return [sum(both) for both in zip(self.claim_seconds, self.settle_seconds, strict=True)]


async def measure(options: argparse.Namespace) -> list[Figure]:
    async with AsyncExitStack() as stack:
        small_stage = await stack.enter_async_context(stage(fsync=False))
        big_stage = await stack.enter_async_context(stage_beside(small_stage))
        small = await _prepared(small_stage, options.small, options.cap)
        filled = time.perf_counter()
        big = await _prepared(big_stage, options.big, options.cap)
        filled = time.perf_counter() - filled
        for _ in range(options.turns):
            await small.turn()
            await big.turn()
    return [
        median_of(
            f"backlog: {options.big:,} queued over {options.small:,}",
            ratios(big.seconds, small.seconds),
            goal=1.3,
            reach="at most",
        ),
        median_of("backlog: claims alone", ratios(big.claim_seconds, small.claim_seconds)),
        median_of("backlog: settles alone", ratios(big.settle_seconds, small.settle_seconds)),
        median_of("claim and settle, small queue", [s * 1e6 for s in small.seconds], "µs/item"),
        Figure("filling the big queue", filled, "s"),
    ]


async def _prepared(on: Stage, items: int, cap: int) -> Hands:
    intake = await on.intake(on.models())
    await copy_batches(on, await on.submit(intake, request_lines(items // BATCHES)), BATCHES, accounts=ACCOUNTS)
    lease = Lease(on.database, seconds=86_400, beat=3_600)
    hands = Hands(on, intake.catalog, on.settings(batch_model_concurrency=cap), await lease.register())
    for _ in range(10):
        await hands.turn()
    hands.claim_seconds.clear()
    hands.settle_seconds.clear()
    return hands


if __name__ == "__main__":
    main(__doc__, measure, big=5_000_000, small=50_000, turns=100, cap=128)
