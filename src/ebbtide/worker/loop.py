"""The batch engine of one process: claims, runs, settles; keeps its lease; does the background duties; stops in order.

It shares nothing with the API but the database.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide import ids, tracing
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL
from ebbtide.delivery.deliver import Deliverer, Delivery
from ebbtide.delivery.webhooks import WEBHOOK_CHANNEL
from ebbtide.dispatch.outcome import Failed
from ebbtide.duties import Duty, repeat
from ebbtide.errors import Unavailable
from ebbtide.records import metrics
from ebbtide.siblings import Sample
from ebbtide.storage.notify import Listener
from ebbtide.worker.claim import Claimer
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.lease import Lease
from ebbtide.worker.lines import LineCache
from ebbtide.worker.money import Holdings
from ebbtide.worker.pace import Pace
from ebbtide.worker.room import prefetch
from ebbtide.worker.rounds import POLL_SECONDS, Rounds
from ebbtide.worker.run import Ended, Runner
from ebbtide.worker.settle import Settler
from ebbtide.worker.upkeep import Upkeep
from ebbtide.worker.verdicts import UNWELL, FinishedItem, sign

log = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 1.0


class Worker:
    """One worker process's engine: `await Worker(context, lease).run(stop)`."""

    def __init__(self, context: WorkerContext, lease: Lease, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._context = context
        self._grace = grace_seconds
        self._rng = random.Random()
        self._pace = Pace()
        self._lanes = Lanes(self._start)
        self._holdings = Holdings()
        self._settler = Settler(context, self._pace, self._holdings, self._rng)
        claimer = Claimer(context, self._lanes, self._pace, self._holdings)
        self._rounds = Rounds(context, lease, self._lanes, claimer, self._settler)
        self._lease = lease
        self.upkeep = Upkeep(context, lease, self._rng)
        self._runner = Runner(LineCache(context.database), context.catalog, context.dispatcher, context.settings)
        delivery = Delivery(context.database, context.settings, context.clock, context.poster)
        self._deliverer = Deliverer(delivery, lambda: lease.worker_no)
        self._running: set[asyncio.Task[None]] = set()
        self._unwell: list[Work] = []
        self._listener = Listener(context.database)
        self._bell = self._listener.subscribe(WORK_CHANNEL, self._rounds.work_came)
        self._duties: list[Duty] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then end in order; cancelled, cut off what still runs and record it."""
        await self._register()
        async with self._listener:
            self._duties = self._make_duties()
            loops = self._start_loops()
            waiting = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait([waiting, *loops.all], return_when=asyncio.FIRST_COMPLETED)
                await self._finish(loops, self._grace)
            except asyncio.CancelledError:
                await self._finish(loops, 0)
                raise
            finally:
                waiting.cancel()
            _raise_first(loops.all)

    async def check(self) -> str | None:
        """What is wrong with the worker, or None: for readiness."""
        stuck = [duty.name for duty in self._duties if duty.is_stuck]
        return f"stuck: {', '.join(stuck)}" if stuck else None

    def loops(self) -> dict[str, float]:
        """When each of its duties last began a round, and when its lease was last prolonged, on the monotonic clock."""
        return {**{duty.name: duty.began_at for duty in self._duties}, "lease": self._lease.held_since}

    def gauges(self) -> list[Sample]:
        """What waits to be put on record."""
        return [(metrics.UNSETTLED, (), self._settler.waiting)]

    # Loops ----------------------------------------------------------------------------------------------------------

    def _start_loops(self) -> _Loops:
        return _Loops(
            settling=asyncio.create_task(self._settler.run(self._settled)),
            lease=asyncio.create_task(self._keep_lease()),
            duties=[asyncio.create_task(repeat(duty, self._context.clock, self._rng)) for duty in self._duties],
        )

    def _make_duties(self) -> list[Duty]:
        webhooks = self._listener.subscribe(WEBHOOK_CHANNEL)
        self._deliverer.wake = webhooks.ring
        return [
            Duty("claim", self._rounds.run_once, POLL_SECONDS, self._bell),
            Duty("drop unstartable", self._rounds.drop_unstartable, 1.0, self._listener.subscribe(DUTY_CHANNEL)),
            *self.upkeep.duties(self._listener),
            Duty("deliver", self._deliverer.run_once, 1.0, webhooks),
        ]

    async def _keep_lease(self) -> None:
        while True:
            worker_no = self._lease.worker_no
            await self._lease.keep()
            await self._lease_lost(worker_no)

    # Running --------------------------------------------------------------------------------------------------------

    def _start(self, work: Work) -> None:
        task = asyncio.create_task(self._run_in_turn(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_in_turn(self, first: Work) -> None:
        """Run one item after another in the same slot, and in the same task, since a new one for each is dear."""
        structlog.contextvars.clear_contextvars()
        work: Work | None = first
        while work:
            work = await self._run(work)

    async def _run(self, work: Work) -> Work | None:
        """Run an item and hand its outcome to the settler; returns the one that runs in its slot next."""
        worker_no = self._lease.worker_no
        began = time.monotonic()
        model = self._context.catalog.current.resolve(work.model)
        request_id = ids.request_id()
        ended = await self._traced(work, request_id)
        if worker_no != self._lease.worker_no:
            return None  # the lease was lost: the item is somebody else's
        seconds = time.monotonic() - began
        finished = FinishedItem(work, ended.outcome, model, request_id, seconds, ended.was_cut_off)
        self._settler.put(finished)
        if ended.was_cut_off:
            return None
        self._pace.ran(work.model, seconds)
        if sign(finished)[0] in UNWELL:
            self._unwell.append(work)
            return None
        return self._next_in_slot(work)

    async def _traced(self, work: Work, request_id: str) -> Ended:
        """Run an item under the id that its attempt is recorded with, in what is logged and told upstream too."""
        structlog.contextvars.bind_contextvars(request_id=request_id)
        tracing.name_request(request_id)
        with tracing.span("batch item", "internal") as span:
            span.set("ebbtide.batch", work.batch.id)
            span.set("ebbtide.item", ids.result_id(work.item.id))
            span.set("ebbtide.model", work.model)
            span.set("ebbtide.request_id", request_id)
            ended = await self._runner.run(work)
            if isinstance(ended.outcome, Failed):
                span.fail(ended.outcome.kind)
            return ended

    def _next_in_slot(self, work: Work) -> Work | None:
        """The item that runs where `work` ran; more are claimed once half of those held ready are gone."""
        successor = self._lanes.finished(work)
        lane = self._lanes.lane(work.model, work.batch.account_id)
        ready = prefetch(lane.limit, self._pace.mean_seconds(work.model), self._pace.round_trip_seconds)
        if len(lane.waiting) * 2 <= ready:
            self._rounds.wanted.add(work.model)
            self._bell.ring()
        return successor

    def _settled(self) -> None:
        """What the settler was handed is on record. Only now are the slots of failures free: their model may rest."""
        for work in self._unwell:
            self._lanes.freed(work)
            self._rounds.wanted.add(work.model)
        self._unwell.clear()
        if self._rounds.wanted:
            self._bell.ring()

    # Beginnings and ends --------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        while True:
            try:
                self._settler.worker_no = await self._lease.register()
                return
            except Unavailable as error:
                log.warning("worker_waits", reason=error.message)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _lease_lost(self, worker_no: int | None) -> None:
        """Everything held belongs to others now: stop it, forget it, begin as a new worker."""
        log.error("lease_lost", worker=worker_no, running=len(self._running))
        lost = list(self._running)
        self._settler.forget()
        self._lanes.clear()
        self._unwell.clear()
        self._holdings.clear()
        for task in lost:
            task.cancel()
        await asyncio.gather(*lost, return_exceptions=True)
        await self._register()
        self._bell.tell()

    async def _finish(self, loops: _Loops, grace: float) -> None:
        """Start nothing more, hand back what waits, let what runs finish for a while, record everything."""
        await _cancel(loops.duties)
        self._settler.hand_back(self._lanes.take_waiting(lambda _: True))
        if self._running:
            await asyncio.wait(self._running, timeout=grace)
        await self._deliverer.close(grace)
        await _cancel(list(self._running))
        await _cancel([loops.settling])
        try:
            async with asyncio.timeout(max(grace, 5.0)):
                await self._settler.flush()
                await self._lease.end()
        except (Unavailable, TimeoutError):
            log.warning("worker_left_untidy", worker=self._lease.worker_no)
        await _cancel([loops.lease])


@dataclass(frozen=True, slots=True)
class _Loops:
    """What goes on until the worker stops, each in a task of its own."""

    settling: asyncio.Task[None]
    lease: asyncio.Task[None]
    duties: list[asyncio.Task[None]]

    @property
    def all(self) -> list[asyncio.Task[None]]:
        return [self.settling, self.lease, *self.duties]


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    """Raise what ended a loop that should have gone on."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
