"""When a worker claims, and for which models: those that have slots to fill, and now and then whatever waits."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Final

from ebbtide.batches import claim_store
from ebbtide.errors import Unavailable
from ebbtide.worker.claim import Claimer, LeaseLost
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lanes import Lanes
from ebbtide.worker.lease import Lease
from ebbtide.worker.money import Moment
from ebbtide.worker.recheck import find_unstartable
from ebbtide.worker.settle import Settler
from ebbtide.worker.switch import Switch
from ebbtide.worker.take import Round

POLL_SECONDS: Final = 1.0
_CLAIMS_AT_ONCE: Final = 4


class Rounds:
    """The claim rounds of one worker; `wanted` are the models that the next one claims for in any case."""

    def __init__(self, context: WorkerContext, lease: Lease, lanes: Lanes, claimer: Claimer, settler: Settler) -> None:
        self._context = context
        self._lease = lease
        self._lanes = lanes
        self._claimer = claimer
        self._settler = settler
        self._switch = Switch()
        self.wanted: set[str] = set()
        self._look_again = True
        self._looked_at = 0.0

    def work_came(self) -> None:
        """Something may have come to claim, of whatever model."""
        self._look_again = True
        self._claimer.look_again()

    async def run_once(self, now: datetime) -> int:
        """A claim round; without the database nobody knows the room, and nothing more starts until the next one."""
        try:
            return await self._claim_round(now)
        except Unavailable:
            self._lanes.limits_unknown()
            raise

    async def _claim_round(self, now: datetime) -> int:
        """Claim for every model that may have something for us.

        Always returns 0, so that `repeat` waits for the bell between rounds.
        """
        worker_no = self._lease.worker_no
        self._switch.seen(self._context.settings.current.batch_enabled)
        if worker_no is None or self._settler.is_full:
            return 0
        models = self.wanted
        self.wanted = set()
        # Nobody announces that a retry's time has come, so a worker that is busy with some models looks at all too.
        if self._look_again or not models or time.monotonic() - self._looked_at > POLL_SECONDS:
            self._look_again = False
            self._looked_at = time.monotonic()
            async with self._context.database.connection() as conn:
                models |= {*await claim_store.waiting_models(conn, now), *self._lanes.models()}
        try:
            await self._claim_all(sorted(models), worker_no, now)
        except LeaseLost as lost:
            self._lease.lapse(lost.worker_no)
        return 0

    async def _claim_all(self, models: list[str], worker_no: int, now: datetime) -> None:
        settings = self._context.settings.current
        at_once = asyncio.Semaphore(_CLAIMS_AT_ONCE)

        async def claim(model: str) -> None:
            async with at_once:
                await self._claimer.claim(Round(model, worker_no, settings, now))

        results = await asyncio.gather(*map(claim, models), return_exceptions=True)
        self._settler.hand_back(self._lanes.take_stranded())
        failures = {model: result for model, result in zip(models, results, strict=True) if result is not None}
        self.wanted |= failures.keys()
        for failure in failures.values():
            raise failure

    async def drop_unstartable(self, now: datetime) -> int:
        """Hand back items that wait here and that may not start any more."""
        if waiting := self._lanes.waiting():
            gone = await find_unstartable(self._context.database, waiting, Moment(now, self._context.settings.current))
            self._settler.hand_back(self._lanes.take_waiting(gone.holds))
        return 0
