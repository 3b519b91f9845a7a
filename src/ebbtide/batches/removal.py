"""An account's batches, removed for good: cancelled, hidden as soon as no lease holds them, then removed in steps.

Each of the three is a transaction of its own, in which batches are locked once and in order.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, cast, get_args

from ebbtide.accounts.purges import Step, Wait
from ebbtide.batches import end_store
from ebbtide.batches.cancel import hide_batch
from ebbtide.batches.end_store import changed
from ebbtide.batches.model import DUTY_CHANNEL, KNOWN
from ebbtide.files.retention import HIDDEN_FOR
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "removal.sql")
SEAL_PATIENCE: Final = timedelta(minutes=10)
_STEP_BATCHES: Final = 50
_STEP_ROWS: Final = 5_000


async def stop_batches(conn: Connection, account_id: str, now: datetime) -> None:
    """Cancel some of the account's unfinished batches."""
    if await conn.fetch(_Q["stop_account"], account_id, now, _STEP_BATCHES, *KNOWN):
        await notify(conn, DUTY_CHANNEL)


async def hide_batches(conn: Connection, account_id: str, asked_at: datetime, now: datetime) -> None:
    """Hide some that no lease holds. `asked_at`: since when the account is to go; seals are not waited for for ever."""
    impatient = now - asked_at > SEAL_PATIENCE
    for batch in await conn.fetch(_Q["idle_of_account"], account_id, impatient, _STEP_BATCHES, *KNOWN):
        await hide_batch(conn, batch["no"], (batch["id"], batch["input_id"]), now)


async def remove_batches(conn: Connection, account_id: str, now: datetime) -> Step:
    """Remove some rows of hidden ones, and in the end what else is kept for the account; done when nothing was left."""
    removed = await _remove_hidden(conn, account_id, now)
    row = await conn.fetchrow(_Q["standing_of_account"], account_id, *KNOWN)
    assert row is not None
    if not row["left"] and not removed:
        removed = await _remove_rest(conn, account_id)
    waits = tuple(cast(Wait, name) for name in get_args(Wait) if name in row.keys() and row[name])  # noqa: SIM118
    return Step(removed, row["left"], waits)


async def _remove_hidden(conn: Connection, account_id: str, now: datetime) -> int:
    removed = 0
    hidden_before = now - HIDDEN_FOR
    for batch in await conn.fetch(_Q["removable_of_account"], account_id, hidden_before, _STEP_BATCHES, *KNOWN):
        if removed >= _STEP_ROWS:
            break
        some = await end_store.purge_some(conn, batch["no"], _STEP_ROWS)
        if not some:
            await end_store.purge_batch(conn, batch["no"])
        removed += some or 1
    return removed


async def _remove_rest(conn: Connection, account_id: str) -> int:
    """What is kept for an account beside its batches. By itself, since batch_user_state is locked before batches."""
    removed = changed(await conn.execute(_Q["drop_keys"], account_id, _STEP_ROWS))
    for name in ("drop_key_states", "drop_account_reservations", "drop_account_slots", "drop_user_state"):
        removed += changed(await conn.execute(_Q[name], account_id))
    return removed
