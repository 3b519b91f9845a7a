"""The statements that stop, close, seal, delete and remove batches, one typed function each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ebbtide.batches.model import BATCH_SCHEMA_VERSION, SURFACES, TARGETS
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "end.sql")
_KNOWN: Final = (list(SURFACES), list(TARGETS), BATCH_SCHEMA_VERSION)
BATCH_FAILED: Final = "batch_failed"
_NOT_RUN: Final = "Not run: the batch failed"
_FULL: Final = "Not run: the batch's answers have reached their storage limit"
_LOST: Final = "The worker that ran this request stopped before its outcome was recorded"


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


@dataclass(frozen=True, slots=True)
class LostItem:
    """An item taken from a lapsed worker: `attempts` includes the try that was lost."""

    batch_no: int
    id: int
    model: str
    claim_epoch: int
    attempts: int


async def cancel_batch(conn: Connection, batch_id: str, now: datetime) -> bool:
    """False when there was nothing left to stop."""
    return changed(await conn.execute(_Q["cancel_batch"], batch_id, now)) > 0


async def fail_batch(conn: Connection, batch_no: int, code: str, message: str, now: datetime) -> bool:
    return changed(await conn.execute(_Q["fail_batch"], batch_no, now, code, message)) > 0


async def expire_batches(conn: Connection, now: datetime) -> int:
    return len(await conn.fetch(_Q["expire_batches"], now, *_KNOWN))


async def closing_batches(conn: Connection) -> list[int]:
    return [row["no"] for row in await conn.fetch(_Q["closing_batches"], *_KNOWN)]


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
            rows = await conn.fetch(_Q["give_up"], batch_no, limit, BATCH_FAILED, _NOT_RUN)
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


async def holds_live_lease(conn: Connection, batch_no: int) -> bool:
    return bool(await conn.fetchval(_Q["holds_live_lease"], batch_no))


async def delete_batch(conn: Connection, batch_no: int, now: datetime) -> None:
    await conn.execute(_Q["delete_batch"], batch_no, now)


async def retire_batches(conn: Connection, now: datetime, limit: int) -> list[RetiredBatch]:
    return [RetiredBatch(**row) for row in await conn.fetch(_Q["retire_batches"], now, limit, *_KNOWN)]


async def removable_batches(conn: Connection, hidden_before: datetime, limit: int) -> list[int]:
    return [row["no"] for row in await conn.fetch(_Q["removable_batches"], hidden_before, limit, *_KNOWN)]


async def purge_some(conn: Connection, batch_no: int, limit: int) -> int:
    """Remove up to `limit` rows of each kind that belong to a deleted batch; 0 when none was left."""
    removed = 0
    for table in ("purge_items", "purge_attempts", "purge_segments"):
        removed += changed(await conn.execute(_Q[table], batch_no, limit))
    return removed


async def purge_batch(conn: Connection, batch_no: int) -> None:
    await conn.execute(_Q["purge_queues"], batch_no)
    await conn.execute(_Q["purge_batch"], batch_no)


async def claim_sealing(conn: Connection, worker_no: int) -> str | None:
    """The id of a batch that this worker seals from now on."""
    batch_id: str | None = await conn.fetchval(_Q["claim_sealing"], worker_no, *_KNOWN)
    return batch_id


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The ids of a sealed batch's files; None where a file would have been empty."""

    output_id: str | None
    error_id: str | None


async def seal(conn: Connection, batch_no: int, worker_no: int, files: ResultFiles, now: datetime) -> datetime | None:
    """When the results expire; None when somebody else sealed or deleted the batch."""
    expires: datetime | None = await conn.fetchval(
        _Q["seal"], batch_no, worker_no, files.output_id, files.error_id, now
    )
    return expires


async def register_worker(conn: Connection, host: str, pid: int, version: str, lease_seconds: float) -> int:
    return int(
        await conn.fetchval(
            _Q["register_worker"],
            host,
            pid,
            version,
            BATCH_SCHEMA_VERSION,
            list(SURFACES),
            list(TARGETS),
            lease_seconds,
        )
    )


async def beat(conn: Connection, worker_no: int, lease_seconds: float) -> bool:
    """False when the lease has lapsed, and with it everything the worker held."""
    return await conn.fetchval(_Q["beat"], worker_no, lease_seconds) is not None


async def end_worker(conn: Connection, worker_no: int) -> None:
    """The worker is gone, or, where it yet holds items, to be taken over from."""
    await conn.execute(_Q["lock_worker"], worker_no)
    await conn.execute(_Q["drop_worker_slots"], worker_no)
    await conn.execute(_Q["end_worker"], worker_no)


async def lapsed_workers(conn: Connection) -> list[int]:
    return [row["no"] for row in await conn.fetch(_Q["lapsed_workers"], *_KNOWN)]


async def end_lapsed(conn: Connection, worker_no: int) -> None:
    """A lapsed worker is gone, unless it still holds something."""
    await conn.execute(_Q["drop_worker_slots"], worker_no)
    await conn.execute(_Q["end_lapsed"], worker_no)


async def held_batches(conn: Connection, worker_no: int, limit: int) -> list[int]:
    return [row["batch_no"] for row in await conn.fetch(_Q["held_batches"], worker_no, limit, *_KNOWN)]


async def take_over(conn: Connection, worker_no: int, batch_nos: Sequence[int], ready_at: datetime) -> list[LostItem]:
    return [LostItem(**row) for row in await conn.fetch(_Q["take_over"], worker_no, batch_nos, ready_at, _LOST)]


async def prune_workers(conn: Connection) -> None:
    await conn.execute(_Q["prune_workers"])


def changed(tag: str) -> int:
    """How many rows a command's tag (`UPDATE 3`) says it changed."""
    return int(tag.rpartition(" ")[2])
