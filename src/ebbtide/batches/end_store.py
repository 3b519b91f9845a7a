"""The statements that stop, close, seal, delete and remove batches, one typed function each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ebbtide.batches.model import KNOWN
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "end.sql")
_NOT_RUN: Final = "Not run: the batch failed"
_FULL: Final = "Not run: the batch's answers have reached their storage limit"


@dataclass(frozen=True, slots=True)
class LockedBatch:
    no: int
    account_id: str
    input_id: str
    phase: str


@dataclass(frozen=True, slots=True)
class RetiredBatch:
    no: int
    id: str
    input_id: str


async def cancel_batch(conn: Connection, batch_id: str, now: datetime) -> bool:
    """False when there was nothing left to stop."""
    return changed(await conn.execute(_Q["cancel_batch"], batch_id, now)) > 0


async def fail_batch(conn: Connection, batch_no: int, code: str, message: str, now: datetime) -> bool:
    return changed(await conn.execute(_Q["fail_batch"], batch_no, now, code, message)) > 0


async def expire_batches(conn: Connection, now: datetime) -> int:
    return len(await conn.fetch(_Q["expire_batches"], now, *KNOWN))


async def closing_batches(conn: Connection) -> list[int]:
    return [row["no"] for row in await conn.fetch(_Q["closing_batches"], *KNOWN)]


async def lock_closing(conn: Connection, batch_no: int) -> str | None:
    """Why nothing of the batch starts: its `closing`, or `full`; None when it goes on."""
    closing: str | None = await conn.fetchval(_Q["lock_closing"], batch_no)
    return closing


async def end_waiting(conn: Connection, closing: str, batch_no: int, limit: int) -> Counter[tuple[str, str]]:
    """End up to `limit` waiting items as `closing` demands; counts by (model, new state)."""
    match closing:
        case "cancelled":
            rows = await conn.fetch(_Q["cancel"], batch_no, limit)
        case "expired":
            rows = await conn.fetch(_Q["run_out"], batch_no, limit)
            rows += await conn.fetch(_Q["expire"], batch_no, limit - len(rows))
        case "full":
            rows = await conn.fetch(_Q["give_up"], batch_no, limit, "result_too_large", _FULL)
        case _:
            rows = await conn.fetch(_Q["give_up"], batch_no, limit, "batch_failed", _NOT_RUN)
    return Counter((row["model"], row["state"]) for row in rows)


async def count_closed(conn: Connection, batch_no: int, ended: Mapping[tuple[str, str], int]) -> None:
    by_state: Counter[str] = Counter()
    by_model: Counter[str] = Counter()
    for (model, state), count in ended.items():
        by_state[state] += count
        by_model[model] += count
    await conn.execute(_Q["count_closed"], batch_no, by_state["cancelled"], by_state["expired"], by_state["failed"])
    await conn.execute(_Q["count_unqueued"], batch_no, list(by_model), list(by_model.values()))


async def lock_batch(conn: Connection, batch_id: str) -> LockedBatch | None:
    row = await conn.fetchrow(_Q["lock_batch"], batch_id)
    return None if row is None else LockedBatch(**row)


async def delete_batch(conn: Connection, batch_no: int, now: datetime) -> None:
    await conn.execute(_Q["delete_batch"], batch_no, now)


async def retire_batches(conn: Connection, now: datetime, limit: int) -> list[RetiredBatch]:
    return [RetiredBatch(**row) for row in await conn.fetch(_Q["retire_batches"], now, limit, *KNOWN)]


async def removable_batches(conn: Connection, hidden_before: datetime, limit: int) -> list[int]:
    return [row["no"] for row in await conn.fetch(_Q["removable_batches"], hidden_before, limit, *KNOWN)]


async def purge_some(conn: Connection, batch_no: int, limit: int) -> int:
    """Remove up to `limit` rows of each kind that belong to a deleted batch; 0 when none was left."""
    removed = 0
    for table in ("purge_items", "purge_attempts", "purge_segments"):
        removed += changed(await conn.execute(_Q[table], batch_no, limit))
    return removed


async def purge_batch(conn: Connection, batch_no: int) -> None:
    await conn.execute(_Q["purge_queues"], batch_no)
    await conn.execute(_Q["purge_batch"], batch_no)


async def claim_sealing(conn: Connection, worker_no: int, sizes: tuple[int, int]) -> str | None:
    """The id of a batch that this worker seals from now on; `sizes` are the least and the most bytes of its answers."""
    batch_id: str | None = await conn.fetchval(_Q["claim_sealing"], worker_no, *KNOWN, *sizes)
    return batch_id


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The ids of a sealed batch's files; None where a file would have been empty."""

    output_id: str | None
    error_id: str | None


async def seal(conn: Connection, batch_no: int, worker_no: int, files: ResultFiles, now: datetime) -> datetime | None:
    """When the result files expire; None when somebody else sealed or deleted the batch."""
    expires: datetime | None = await conn.fetchval(
        _Q["seal"], batch_no, worker_no, files.output_id, files.error_id, now
    )
    return expires


def changed(tag: str) -> int:
    """How many rows a command's tag (`UPDATE 3`) says it changed."""
    return int(tag.rpartition(" ")[2])
