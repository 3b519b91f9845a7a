"""Background steps: end waiting items of closing batches, requeue the items of dead workers, delete expired batches,
remove their rows.

Each step is one transaction and can be repeated after a crash; each returns how much it did, 0 when nothing was left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import structlog

from ebbtide.batches import end_store as store
from ebbtide.batches import settle_store, workers_store
from ebbtide.batches.cancel import hide_batch
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL
from ebbtide.batches.retry import next_try, wait_after_loss
from ebbtide.batches.settle_store import AttemptRow, BatchDelta, FailedRow, LockedBatch, QueueDelta, RetriedRow
from ebbtide.batches.workers_store import HeldItem
from ebbtide.errors import Unavailable
from ebbtide.files.retention import HIDDEN_FOR
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

log = structlog.get_logger(__name__)

STEP_ITEMS: Final = 5_000
_STEP_BATCHES: Final = 50
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_LOST: Final = ("upstream_error", "The worker that ran this request stopped before its outcome was recorded", 502)


async def expire_batches(database: Database, now: datetime) -> int:
    """Begin to close the batches whose window is over."""
    async with database.transaction() as conn:
        return await store.expire_batches(conn, now)


async def close_batches(database: Database, now: datetime) -> int:
    """One step for every batch that is being closed; one that breaks is logged and holds up no other."""
    async with database.connection() as conn:
        closing = await store.closing_batches(conn)
    more = 0
    for batch_no in closing:
        try:
            more += await close_batch(database, batch_no, now)
        except Unavailable:
            raise
        except Exception as error:
            log.error("close_failed", batch_no=batch_no, exc_info=error)
    return more


async def close_batch(database: Database, batch_no: int, now: datetime) -> int:
    """End some of a closing batch's waiting items, and the batch with its last one. 1 when it may need more steps."""
    async with database.transaction() as conn:
        closing = await store.lock_closing(conn, batch_no)
        if closing is None:
            return 0
        ended = await store.end_waiting(conn, closing, batch_no, STEP_ITEMS)
        await store.count_closed(conn, batch_no, ended)
        await finish_batches(conn, [batch_no], now)
    return 1 if sum(ended.values()) == STEP_ITEMS else 0


async def finish_batches(conn: Connection, batch_nos: list[int], now: datetime) -> None:
    """End those of the locked batches that have no open item left, and wake whoever seals."""
    finished = await settle_store.finish_batches(conn, batch_nos, now)
    if "sealing" in finished.values():
        await notify(conn, DUTY_CHANNEL)


async def take_over(database: Database, now: datetime, rng: random.Random) -> int:
    """Take from lapsed workers what they held, each lost try on record with an unknown cost; how many items that were.

    An item waits for another try, or fails when there is none for it. Items of batches that only a newer build knows
    stay for its workers.
    """
    async with database.connection() as conn:
        lapsed = await workers_store.lapsed_workers(conn)
    return sum([await _take_over_from(database, worker_no, now, rng) for worker_no in lapsed])


async def _take_over_from(database: Database, worker_no: int, now: datetime, rng: random.Random) -> int:
    """One worker in one transaction, so that batches are locked once and in order."""
    async with database.transaction() as conn:
        if not await workers_store.lock_lapsed(conn, worker_no):
            return 0
        held = await workers_store.held_batches(conn, worker_no, _STEP_BATCHES)
        batches = await settle_store.lock_batches(conn, held)
        lost = await workers_store.held_items(conn, worker_no, held)
        if lost:
            await settle_store.add_attempts(conn, worker_no, [_lost_attempt(item) for item in lost], now)
            await _move_lost(conn, lost, batches, (now, rng))
            await finish_batches(conn, held, now)
            await notify(conn, WORK_CHANNEL)
            await notify(conn, DUTY_CHANNEL)
        await workers_store.end_lapsed(conn, worker_no)
    return len(lost)


async def _move_lost(
    conn: Connection, lost: Sequence[HeldItem], batches: Mapping[int, LockedBatch], when: tuple[datetime, random.Random]
) -> None:
    """Put lost items back for another try, or end those that have none left; `when`: the time, and for the jitter."""
    now, rng = when
    failed: list[FailedRow] = []
    retried: dict[HeldItem, RetriedRow] = {}
    for item in lost:
        attempts, window_end = item.attempts + 1, batches[item.batch_no].expires_at
        ready_at = next_try(now, wait_after_loss(attempts, rng), attempts, window_end)
        if ready_at is None:
            failed.append(FailedRow(item.batch_no, item.id, item.claim_epoch, *_LOST, None))
        else:
            retried[item] = RetriedRow(item.batch_no, item.id, item.claim_epoch, *_LOST, 1, ready_at)
    await settle_store.fail(conn, failed)
    await settle_store.retry(conn, list(retried.values()))
    await settle_store.count_settled(conn, _lost_by_batch(lost, failed))
    await settle_store.count_released(conn, _lost_by_queue(lost, retried))


def _lost_by_batch(lost: Sequence[HeldItem], failed: Sequence[FailedRow]) -> list[BatchDelta]:
    tries = Counter(item.batch_no for item in lost)
    ended = Counter(row.batch_no for row in failed)
    return [BatchDelta(no, 0, ended[no], 0, 0, 0, 0, Decimal(0), count, 0) for no, count in sorted(tries.items())]


def _lost_by_queue(lost: Sequence[HeldItem], retried: Mapping[HeldItem, RetriedRow]) -> list[QueueDelta]:
    released = Counter((item.batch_no, item.model) for item in lost)
    waiting: dict[tuple[int, str], list[datetime]] = {queue: [] for queue in released}
    for item, row in retried.items():
        waiting[item.batch_no, item.model].append(row.ready_at)
    return [
        QueueDelta(
            *queue, released=count, queued=len(waiting[queue]), next_ready_at=min(waiting[queue], default=_NEVER)
        )
        for queue, count in sorted(released.items())
    ]


def _lost_attempt(item: HeldItem) -> AttemptRow:
    return AttemptRow(
        batch_no=item.batch_no,
        item_id=item.id,
        claim_epoch=item.claim_epoch,
        attempt=item.attempts + 1,
        model=item.model,
        route=None,
        outcome="lost",
        seconds=None,
        status_code=None,
        error_code=None,
        request_id=None,
        input_tokens=None,
        cached_tokens=None,
        output_tokens=None,
        reasoning_tokens=None,
        cost_usd=None,
    )


async def retire_batches(database: Database, now: datetime, limit: int = 100) -> int:
    """Delete the batches whose retention is over."""
    async with database.transaction() as conn:
        retired = await store.retire_batches(conn, now, limit)
        for batch in retired:
            await hide_batch(conn, batch.no, (batch.id, batch.input_id), now)
    return len(retired)


async def purge_batches(database: Database, now: datetime) -> int:
    """Remove some rows of batches deleted a while ago and read by nobody."""
    async with database.connection() as conn:
        batch_nos = await store.removable_batches(conn, now - HIDDEN_FOR, 10)
    removed = 0
    for batch_no in batch_nos:
        async with database.transaction() as conn:
            some = await store.purge_some(conn, batch_no, STEP_ITEMS)
            if some == 0:
                await store.purge_batch(conn, batch_no)
            removed += some + 1
    return removed


async def prune_workers(database: Database) -> None:
    """Forget the workers that ended long ago."""
    async with database.transaction() as conn:
        await workers_store.prune_workers(conn)
