"""How many batch requests each model may run, and how it stands: what administrators read and change.

The cap is read by every claim, so a change is in force everywhere with the next round. What waits is counted by the
rule that claims use: requests of batches that start nothing more are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from asyncpg import Record

from ebbtide.batches.model import KNOWN, WORK_CHANNEL
from ebbtide.errors import InvalidRequest
from ebbtide.records.audit import Deed, add_audit
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "model_limits.sql")
MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """How a model stands. `max_concurrency` is its own cap, None where BATCH_MODEL_CONCURRENCY holds; `effective` is
    the cap in force. Counts are requests, over all processes; what a worker holds ready is still `queued`.
    `waiting_since`: its deployment waits for capacity.
    """

    model: str
    max_concurrency: int | None
    effective: int
    running: int
    queued: int
    interactive: int
    blocked_reason: str | None
    rest_until: datetime | None
    waiting_since: datetime | None


async def list_models(
    database: Database, model_ids: Sequence[str], settings: Settings, now: datetime
) -> list[ModelFigures]:
    """The figures of these models, and of every other one that has requests waiting or running; by name."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["list_model_figures"], list(model_ids), now, *KNOWN)
    return [_figures(row, settings, now) for row in rows]


async def set_model_limit(database: Database, model: str, limit: int | None, actor: str, now: datetime) -> None:
    """Give a model a cap of its own, or none (None), with its row in the audit log. Raises InvalidRequest."""
    if limit is not None and not 0 <= limit <= MOST:
        raise InvalidRequest(
            f"max_concurrency must be a whole number from 0 to {MOST:,}, or null", param="max_concurrency"
        )
    async with database.transaction() as conn:
        before: int | None = await conn.fetchval(_Q["lock_model_limit"], model)
        if before == limit:
            return
        await conn.execute(_Q["put_model_limit"], model, limit, now, actor)
        await add_audit(conn, Deed(actor, "model.batch_limit", model, detail={"old": before, "new": limit}), now)
        await notify(conn, WORK_CHANNEL)


def _figures(row: Record, settings: Settings, now: datetime) -> ModelFigures:
    own: int | None = row["max_concurrency"]
    effective = settings.batch_model_concurrency if own is None else own
    rests = row["rest_until"] is not None and row["rest_until"] > now
    running = min(row["held"], row["slots"])
    return ModelFigures(
        model=row["model"],
        max_concurrency=own,
        effective=effective,
        running=running,
        queued=row["queued"] + row["held"] - running,
        interactive=row["interactive"],
        blocked_reason=_blocked_reason(row, effective, rests=rests),
        rest_until=row["rest_until"] if rests else None,
        waiting_since=row["waiting_since"],
    )


def _blocked_reason(row: Record, effective: int, *, rests: bool) -> str | None:
    """Why none of its requests starts. What the last claim round found counts only while something waits."""
    if rests:
        return str(row["rest_reason"])
    if effective == 0:
        return "model_cap"
    found: str | None = row["room_reason"]
    return found if row["queued"] > 0 and found != "model_cap" else None
