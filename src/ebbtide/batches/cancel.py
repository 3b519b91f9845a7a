"""Stopping and deleting batches as callers ask for it: in force at once; workers do the rest in bounded steps."""

from __future__ import annotations

from datetime import datetime

from ebbtide.accounts.store import Principal
from ebbtide.batches import end_store as store
from ebbtide.batches import workers_store
from ebbtide.batches.idempotency import bury_keys
from ebbtide.batches.model import DUTY_CHANNEL, Job
from ebbtide.batches.progress import find_batch, read_batch, visible
from ebbtide.errors import Conflict
from ebbtide.files.store import delete_batch_files
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database


async def cancel_batch(database: Database, principal: Principal, batch_id: str, now: datetime) -> Job:
    """Nothing of the batch starts any more; what runs finishes. A batch that is past stopping comes back unchanged.

    Raises NotFound.
    """
    async with database.transaction() as conn:
        visible(await find_batch(conn, batch_id), principal, batch_id)
        if await store.cancel_batch(conn, batch_id, now):
            await notify(conn, DUTY_CHANNEL)
        return await read_batch(conn, batch_id)


async def delete_batch(database: Database, principal: Principal, batch_id: str, now: datetime) -> None:
    """Hide the batch, its results and result files at once.

    Raises NotFound; Conflict while a living worker runs one of its requests.
    """
    async with database.transaction() as conn:
        visible(await find_batch(conn, batch_id), principal, batch_id)
        batch = await store.lock_batch(conn, batch_id)
        if batch is None:
            return  # somebody deleted it meanwhile
        if await workers_store.holds_live_lease(conn, batch.no):
            raise Conflict(
                "The batch has requests running. Cancel it, wait until they have finished, then delete it",
                code="batch_running",
            )
        await hide_batch(conn, batch.no, (batch_id, batch.input_id), now)


async def hide_batch(conn: Connection, batch_no: int, ids: tuple[str, str], now: datetime) -> None:
    """Delete a locked batch; `ids` are its own and its input's."""
    await store.delete_batch(conn, batch_no, now)
    await bury_keys(conn, ids[0], now)
    await delete_batch_files(conn, *ids, now)
