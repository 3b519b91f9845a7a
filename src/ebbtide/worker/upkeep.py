"""What a worker does for batches beside running their items, each a duty: validate, close, seal, take over, alert,
clean up.

What holds a lease on a batch does nothing while the worker has none of its own.
"""

from __future__ import annotations

import random
from datetime import datetime

from ebbtide.accounts.purges import PURGE_CHANNEL
from ebbtide.batches import closing
from ebbtide.batches.idempotency import forget_keys
from ebbtide.batches.intake import Intake
from ebbtide.batches.model import DUTY_CHANNEL
from ebbtide.batches.validation import validate_next
from ebbtide.delivery.alerts import Alerts
from ebbtide.delivery.seal import LARGE, SMALL, Sizes, seal_next
from ebbtide.delivery.webhooks import prune_webhooks
from ebbtide.dispatch.translation import check_carried
from ebbtide.duties import Duty
from ebbtide.files import retention
from ebbtide.files.resumable import expire_uploads
from ebbtide.records import metrics
from ebbtide.storage.notify import Listener
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lease import Lease
from ebbtide.worker.purge import purge_accounts


class Upkeep:
    """The duties of one worker that touch no running item."""

    def __init__(self, context: WorkerContext, lease: Lease, rng: random.Random) -> None:
        self._context = context
        self._lease = lease
        self._rng = rng
        self._alerts = Alerts(context.database, lambda: context.settings.current, context.poster)

    def duties(self, listener: Listener) -> list[Duty]:
        """Those that others announce are woken through `listener`."""
        database = self._context.database
        bells = [listener.subscribe(DUTY_CHANNEL) for _ in range(4)]
        return [
            Duty("validate", self.validate, 2.0, bells[0], patience=600),
            Duty("close", lambda now: closing.close_batches(database, now), 2.0, bells[1]),
            Duty("seal", lambda now: self.seal(SMALL), 2.0, bells[2], patience=3_600),
            Duty("seal large", lambda now: self.seal(LARGE), 2.0, bells[3], patience=3_600),
            Duty("expire", lambda now: closing.expire_batches(database, now), 1.0),
            Duty("take over", self._take_over, 1.0),
            Duty("retire", lambda now: closing.retire_batches(database, now), 60.0),
            Duty("purge", self._purge, 60.0),
            Duty("remove accounts", lambda now: purge_accounts(database, now), 2.0, listener.subscribe(PURGE_CHANNEL)),
            Duty("forget keys", lambda now: forget_keys(database, now), 60.0),
            Duty("alert", self._alerts.run_once, 30.0),
        ]

    async def validate(self, now: datetime) -> int:
        """Validate the file batch that has waited longest; 0 when none waits, and while there is no lease.

        Nor while it cannot be told which models there are.
        """
        worker_no, context = self._lease.worker_no, self._context
        if worker_no is None or not context.catalog.current.is_settled:
            return 0
        catalog, settings = context.catalog.current, context.settings.current
        intake = Intake(context.database, catalog, settings, context.clock, check_carried)
        return await validate_next(intake, worker_no)

    async def seal(self, sizes: Sizes) -> int:
        """Seal the batch of `sizes` that has waited longest; 0 when none waits, and while there is no lease."""
        worker_no, context = self._lease.worker_no, self._context
        return 0 if worker_no is None else await seal_next(context.database, worker_no, context.clock, sizes)

    async def _take_over(self, now: datetime) -> int:
        """From workers on this host that are dead, and from any whose lease has lapsed."""
        await self._lease.lapse_dead()
        taken = await closing.take_over(self._context.database, now, self._rng)
        metrics.TAKEN_OVER.inc(taken)
        return taken

    async def _purge(self, now: datetime) -> int:
        database = self._context.database
        removed = await closing.purge_batches(database, now)
        removed += await retention.expire_files(database, now)
        removed += await retention.purge_files(database, now)
        removed += await expire_uploads(database, now)
        removed += await prune_webhooks(database, now)
        await closing.prune_workers(database)
        return removed
