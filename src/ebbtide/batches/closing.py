"""Bounded steps towards the end: waiting items of closing batches, what lapsed workers held, retention, removal.

Each step is one transaction and can be repeated after a crash; each returns how much it did, 0 when nothing was left.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Final

import structlog

from ebbtide.batches import end_store as store
from ebbtide.batches import settle_store
from ebbtide.batches.cancel import hide_batch
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL
from ebbtide.batches.settle_store import AttemptRow, BatchDelta, QueueDelta
from ebbtide.errors import Unavailable
from ebbtide.files.retention import HIDDEN_FOR
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

log = structlog.get_logger(__name__)

STEP_ITEMS: Final = 5_000
_STEP_BATCHES: Final = 50


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


async def take_over(database: Database, now: datetime) -> int:
    """Give the items of lapsed workers back to the queue, each lost try on record with an unknown cost.

    Items of batches that only a newer build knows stay for its workers.
    """
    async with database.transaction() as conn:
        lapsed = await store.lapsed_workers(conn)
        taken = 0
        for worker_no in lapsed:
            held = await store.held_batches(conn, worker_no, _STEP_BATCHES)
            if held:
                await settle_store.lock_batches(conn, held)
                taken += await _take_items(conn, worker_no, held, now)
            await store.end_lapsed(conn, worker_no)
        if taken:
            await notify(conn, WORK_CHANNEL)
            await notify(conn, DUTY_CHANNEL)
    return taken


async def _take_items(conn: Connection, worker_no: int, held: list[int], now: datetime) -> int:
    lost = await store.take_over(conn, worker_no, held, now)
    if not lost:
        return 0
    await settle_store.add_attempts(conn, worker_no, [_lost_attempt(item) for item in lost], now)
    by_batch = Counter(item.batch_no for item in lost)
    by_queue = Counter((item.batch_no, item.model) for item in lost)
    await settle_store.count_settled(conn, [_unknown(batch_no, count) for batch_no, count in sorted(by_batch.items())])
    await settle_store.count_released(
        conn, [QueueDelta(batch_no, model, n, n, now) for (batch_no, model), n in sorted(by_queue.items())]
    )
    return len(lost)


def _lost_attempt(item: store.LostItem) -> AttemptRow:
    return AttemptRow(
        batch_no=item.batch_no,
        item_id=item.id,
        claim_epoch=item.claim_epoch,
        attempt=item.attempts,
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


def _unknown(batch_no: int, count: int) -> BatchDelta:
    return BatchDelta(batch_no, 0, 0, 0, 0, 0, 0, Decimal(0), count, 0)


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
        await store.prune_workers(conn)
