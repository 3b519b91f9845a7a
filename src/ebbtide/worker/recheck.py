"""What is checked once more while an item waits at a worker for its slot: batch, creator and money.

The claim checked the same, but that may be minutes ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.accounts.quotas import read_limits
from ebbtide.accounts.roles import Role
from ebbtide.batches import claim_store
from ebbtide.storage.pool import Database
from ebbtide.worker.lanes import Work
from ebbtide.worker.money import Moment


@dataclass(frozen=True, slots=True)
class Unstartable:
    """Batches, by number, of which nothing may start, and keys that have nothing left to spend."""

    batches: frozenset[int]
    keys: frozenset[str]

    def holds(self, work: Work) -> bool:
        return work.batch.no in self.batches or work.batch.key_id in self.keys


async def find_unstartable(database: Database, waiting: Sequence[Work], moment: Moment) -> Unstartable:
    """Which of the waiting items may not start. What running requests may cost was counted when they were claimed."""
    batches = sorted({work.batch.no for work in waiting})
    keys = sorted({work.batch.key_id for work in waiting})
    min_role = Role(moment.settings.batch_min_role)
    async with database.connection() as conn:
        gone = await claim_store.unstartable_batches(conn, batches, min_role, moment.now)
        limits = await read_limits(conn, keys, moment.now.date(), moment.settings)
    return Unstartable(frozenset(gone), frozenset(key for key, limit in limits.items() if limit.used_up()))
