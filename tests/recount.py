"""What became of the items of a run, by their custom_ids: for tests that watch processes. See also domain.books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.storage.pool import Database

_ATTEMPTS = """
select i.custom_id, count(a.*) filter (where a.outcome = 'completed') as completed,
       count(a.*) filter (where a.outcome = 'lost') as lost, count(a.*) as attempts,
       count(a.*) filter (where a.outcome = 'lost' and a.cost_usd is not null) as lost_with_cost,
       count(a.*) filter (where a.outcome = 'completed' and a.cost_usd is null) as completed_without_cost
from batch_items i left join batch_attempts a on a.batch_no = i.batch_no and a.item_id = i.id
group by i.batch_no, i.id, i.custom_id
"""


@dataclass(frozen=True)
class Attempts:
    """How often an item was tried, by what became of it."""

    completed: int
    lost: int
    attempts: int


async def attempts_by_custom_id(database: Database) -> dict[str, Attempts]:
    """Of all items, whose custom_ids must differ. A lost attempt's cost is unknown, that of a completed one is not."""
    async with database.connection() as conn:
        rows = await conn.fetch(_ATTEMPTS)
    assert sum(row["lost_with_cost"] + row["completed_without_cost"] for row in rows) == 0
    assert len({row["custom_id"] for row in rows}) == len(rows)
    return {row["custom_id"]: Attempts(row["completed"], row["lost"], row["attempts"]) for row in rows}


async def completed_items(database: Database) -> set[str]:
    """The custom_ids of the items whose outcome is committed."""
    async with database.connection() as conn:
        return {row["custom_id"] for row in await conn.fetch(_COMPLETED)}


_COMPLETED = "select custom_id from batch_items where state = 'completed'"


async def running_of(database: Database, pids: Sequence[int]) -> int:
    """How many items the workers of these processes hold."""
    async with database.connection() as conn:
        return int(
            await conn.fetchval(
                "select count(*) from batch_items i join workers w on w.no = i.worker_no "
                "where i.state = 'running' and w.pid = any($1)",
                list(pids),
            )
        )
