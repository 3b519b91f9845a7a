"""Intake's statements, one typed function each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.batches.model import BATCH_SCHEMA_VERSION, KNOWN, Item
from ebbtide.dialects.values import Target
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "intake.sql")
_ITEM_COLUMNS = [
    *("batch_no", "model", "ready_at", "custom_id", "chunk", "line_offset", "line_length", "max_tokens"),
    *("state", "error_code", "error_message", "error_status"),
]
_SLICE = 500


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The row of a batch to insert. `expires_at` None: no window. `total` is 0 until a file has been read; `model` is
    told where all requests name one. `output_seconds` is how long the result files are wanted at most; `failed` counts
    the requests that were never good. `from_file`: of a Gemini batch, a file holds its requests.
    """

    id: str
    account_id: str
    key_id: str
    api_surface: str
    target: Target
    input_id: str
    metadata: str | None
    completion_window: str
    retention_days: int
    phase: str
    created_at: datetime
    expires_at: datetime | None
    total: int
    model: str | None = None
    output_seconds: int | None = None
    anthropic_version: str | None = None
    failed: int = 0
    name: str | None = None
    priority: int = 0
    from_file: bool = False


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an account has unfinished: batches, and requests in all of them."""

    batches: int
    requests: int


@dataclass(frozen=True, slots=True)
class Validation:
    """A file batch that a worker has taken to validate."""

    no: int
    id: str
    account_id: str
    key_id: str
    target: Target
    input_id: str
    created_at: datetime
    expires_at: datetime | None
    anthropic_version: str | None
    api_surface: str
    model: str | None


async def lock_creator(conn: Connection, account_id: str, key_id: str, now: datetime) -> bool:
    """Whether the account and the key may still act; holds the account's row until the transaction ends."""
    return bool(await conn.fetchval(_Q["lock_creator"], account_id, key_id, now))


async def count_unfinished(conn: Connection, account_id: str) -> Unfinished:
    row = await conn.fetchrow(_Q["count_unfinished"], account_id)
    assert row is not None
    return Unfinished(row["batches"], row["requests"])


async def insert_batch(conn: Connection, new: NewBatch) -> int:
    return int(
        await conn.fetchval(
            _Q["insert_batch"],
            new.id,
            new.account_id,
            new.key_id,
            new.api_surface,
            new.target,
            new.input_id,
            new.metadata,
            new.completion_window,
            new.retention_days,
            new.phase,
            new.created_at,
            new.expires_at,
            new.total,
            new.model,
            BATCH_SCHEMA_VERSION,
            new.output_seconds,
            new.anthropic_version,
            new.failed,
            new.name,
            new.priority,
            new.from_file,
        )
    )


async def add_items(conn: Connection, batch_no: int, items: Sequence[Item], now: datetime) -> None:
    """Store a batch's items, in order, and its queue rows. Ids ascend in that order."""
    await conn.copy_records_to_table(
        "batch_items", records=_records(batch_no, items, now), columns=_ITEM_COLUMNS, timeout=600
    )
    waiting = Counter(item.model for item in items if item.state == "queued")
    await conn.execute(_Q["insert_queues"], batch_no, list(waiting), list(waiting.values()), now)


def model_of(items: Sequence[Item]) -> str | None:
    """The model that all of the items name; None where they name several."""
    models = {item.model for item in items if item.state == "queued"}
    return models.pop() if len(models) == 1 else None


async def _records(batch_no: int, items: Sequence[Item], now: datetime) -> AsyncIterator[tuple[object, ...]]:
    """The rows to copy. Encoding them is the event loop's work, so it is let go now and then."""
    for start in range(0, len(items), _SLICE):
        for i in items[start : start + _SLICE]:
            place = (i.chunk, i.line_offset, i.line_length)
            error = (i.error_code, i.error_message, i.error_status)
            yield batch_no, i.model, now, i.custom_id, *place, i.max_tokens, i.state, *error
        await asyncio.sleep(0)


async def ensure_user_state(conn: Connection, account_id: str, now: datetime) -> None:
    await conn.execute(_Q["ensure_user_state"], account_id, now)


async def claim_validation(conn: Connection, worker_no: int) -> Validation | None:
    row = await conn.fetchrow(_Q["claim_validation"], worker_no, *KNOWN)
    return None if row is None else Validation(**row)


async def lock_validating(conn: Connection, batch_no: int, worker_no: int) -> bool:
    return await conn.fetchval(_Q["lock_validating"], batch_no, worker_no) is not None


async def open_batch(conn: Connection, batch_no: int, items: Sequence[Item], now: datetime) -> None:
    """Open a validated batch of those items, which may run from now on."""
    await conn.execute(_Q["open_batch"], batch_no, len(items), model_of(items), now)


async def reject_batch(conn: Connection, batch_no: int, errors: str, now: datetime) -> None:
    await conn.execute(_Q["reject_batch"], batch_no, errors, now)


async def account_role(conn: Connection, account_id: str) -> str | None:
    role: str | None = await conn.fetchval(_Q["account_role"], account_id)
    return role
