"""Removing accounts for good, a bounded step at a time: whatever is left is found in the database, so any process may
do the next step, and one that dies has half done nothing.

Work is cancelled, leases are waited for, then batches, files, webhook, holds and stored contents go, the account last.
The request log and what was charged stay.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

from ebbtide.accounts import purges
from ebbtide.accounts.purges import Progress, Purge
from ebbtide.batches.removal import hide_batches, remove_batches, stop_batches
from ebbtide.delivery.webhooks import remove_account_webhook
from ebbtide.errors import Unavailable
from ebbtide.files.retention import remove_account_files
from ebbtide.proxy.removal import remove_holds
from ebbtide.records.content import drop_contents
from ebbtide.storage.pool import Connection, Database

log = structlog.get_logger(__name__)

QUIET: Final = timedelta(minutes=1)  # what was let in just before has been written, or found the account gone
_ACCOUNTS_AT_ONCE: Final = 20
_STEP_KEYS: Final = 1_000
_STEP_REQUESTS: Final = 5_000


async def purge_accounts(database: Database, now: datetime) -> int:
    """A step for every account that is to go; how many rows were removed. One that breaks holds up no other."""
    removed = 0
    for account_id in await purges.open_purges(database, _ACCOUNTS_AT_ONCE):
        try:
            removed += await purge_some(database, account_id, now)
        except Unavailable:
            raise
        except Exception as error:
            log.error("purge_failed", account=account_id, exc_info=error)
    return removed


async def purge_some(database: Database, account_id: str, now: datetime) -> int:
    """One step for one account, each part of it under the removal's row; how many rows were removed."""
    removed = 0
    for part in (_stop, _hide, _remove):
        async with database.transaction() as conn:
            purge = await purges.lock_purge(conn, account_id)
            if purge is None:
                return removed
            removed += await part(conn, purge, now)
    return removed


async def _stop(conn: Connection, purge: Purge, now: datetime) -> int:
    await stop_batches(conn, purge.account_id, now)
    return 0


async def _hide(conn: Connection, purge: Purge, now: datetime) -> int:
    await hide_batches(conn, purge.account_id, purge.asked_at, now)
    return 0


async def _remove(conn: Connection, purge: Purge, now: datetime) -> int:
    account_id = purge.account_id
    batches = await remove_batches(conn, account_id, now)
    files = await remove_account_files(conn, account_id, now)
    others = (await remove_account_webhook(conn, account_id), await remove_holds(conn, account_id))
    steps = (batches, files, *others)
    removed = sum(step.removed for step in steps)
    waits = sorted({wait for step in steps for wait in step.waits_for}) or ([] if removed else ["last_minute"])
    progress = Progress(waits, batches.left, files.left, removed, purge.swept_to)
    if all(step.is_done for step in steps) and now - purge.asked_at >= QUIET:
        progress = await _finish(conn, purge, now)
    await purges.note_purge(conn, account_id, progress, now)
    return progress.removed


async def _finish(conn: Connection, purge: Purge, now: datetime) -> Progress:
    """Nothing is left but what was said, the keys and the account itself."""
    removed, go_on = await drop_contents(conn, purge.account_id, purge.swept_to, _STEP_REQUESTS)
    if go_on is not None:
        return Progress((), 0, 0, removed + 1, go_on)
    keys = await purges.drop_keys(conn, purge.account_id, _STEP_KEYS)
    if keys:
        return Progress((), 0, 0, removed + keys, purge.swept_to)
    await purges.remove_account(conn, purge, now)
    log.info("account_purged", account=purge.account_id)
    return Progress((), 0, 0, removed + 1, now, finished_at=now)
