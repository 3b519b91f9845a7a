"""Removing files: hidden when their time is over, or their account's, gone once nobody can be reading them and no batch
needs them.

The row of an upload stays for the hour in which it counts against BATCH_FILE_UPLOADS_PER_HOUR.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts.purges import Step
from ebbtide.files import store
from ebbtide.files.resumable import drop_account_uploads
from ebbtide.files.upload import COUNTED_FOR
from ebbtide.storage.pool import Connection, Database

HIDDEN_FOR: Final = timedelta(minutes=1)  # a reader that found it just before takes its lease meanwhile
_STEP_FILES: Final = 100
_STEP_CHUNKS: Final = 64


async def expire_files(database: Database, now: datetime) -> int:
    """Hide the files whose time is over."""
    async with database.transaction() as conn:
        return await store.expire_files(conn, now, _STEP_FILES)


async def purge_files(database: Database, now: datetime) -> int:
    """Remove some chunks of files hidden a while ago and read by nobody, and rows that have none left."""
    async with database.connection() as conn:
        file_ids = await store.removable_files(conn, now - HIDDEN_FOR, now - COUNTED_FOR, 10)
    removed = 0
    for file_id in file_ids:
        async with database.transaction() as conn:
            removed += await _purge_some(conn, file_id, now - COUNTED_FOR)
    return removed


async def remove_account_files(conn: Connection, account_id: str, now: datetime) -> Step:
    """One bounded step of the removal of all files of an account; done when it found nothing left."""
    await drop_account_uploads(conn, account_id)
    await store.hide_account_files(conn, account_id, now, _STEP_FILES)
    removable = await store.removable_account_files(conn, account_id, now - HIDDEN_FOR, 10)
    removed = sum([await _purge_some(conn, file_id, now) for file_id in removable])
    left, is_read = await store.standing_of_account(conn, account_id)
    return Step(removed, left, ("readers",) if is_read else ())


async def _purge_some(conn: Connection, file_id: str, counted_after: datetime) -> int:
    """Remove some chunks of a file, and its row once it has none and is no upload that still counts."""
    chunks = await store.purge_chunks(conn, file_id, _STEP_CHUNKS)
    if chunks == 0:
        await store.purge_file(conn, file_id, counted_after)
    return chunks + 1
