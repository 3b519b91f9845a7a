"""Every figure that is kept by adding to it, counted anew from the rows that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ebbtide.storage.pool import Database

_COUNTERS = """
select j.id, j.completed, j.failed, j.cancelled, j.expired, j.total, j.cost_usd, j.cost_unknown_attempts,
       j.input_tokens, j.output_tokens, q.queued, q.running
from batch_jobs j
left join (select batch_no, sum(queued) as queued, sum(running) as running from batch_queues group by 1) q
       on q.batch_no = j.no
order by j.no
"""
_ROWS = """
select j.id,
       count(*) filter (where i.state = 'completed') as completed, count(*) filter (where i.state = 'failed') as failed,
       count(*) filter (where i.state = 'cancelled') as cancelled,
       count(*) filter (where i.state = 'expired') as expired,
       count(i.id) as total, a.cost_usd, a.cost_unknown_attempts, a.input_tokens, a.output_tokens,
       count(*) filter (where i.state = 'queued') as queued, count(*) filter (where i.state = 'running') as running
from batch_jobs j
left join batch_items i on i.batch_no = j.no
left join lateral (
    select coalesce(sum(cost_usd), 0) as cost_usd, count(*) filter (where cost_usd is null) as cost_unknown_attempts,
           coalesce(sum(input_tokens), 0) as input_tokens, coalesce(sum(output_tokens), 0) as output_tokens
    from batch_attempts where batch_no = j.no) a on true
group by j.no, j.id, a.cost_usd, a.cost_unknown_attempts, a.input_tokens, a.output_tokens
order by j.no
"""
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


async def check_counters(database: Database) -> None:
    """The batches' counters, queues and money are those of their items and attempts, and so is what was spent."""
    async with database.transaction() as conn:
        await conn.execute("set transaction isolation level repeatable read")
        kept, counted = await conn.fetch(_COUNTERS), await conn.fetch(_ROWS)
        charged = await conn.fetchval("select coalesce(sum(cost_usd), 0) from spend_days where source = 'batch'")
        billed = await conn.fetchval("select coalesce(sum(cost_usd), 0) from batch_attempts")
    assert [_plain(row) for row in kept] == [_plain(row) for row in counted]
    assert charged == billed


def _plain(row: Any) -> dict[str, Any]:
    """Queue rows go with the end of their batch."""
    return {name: Decimal(0) if value is None else value for name, value in row.items()}


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
