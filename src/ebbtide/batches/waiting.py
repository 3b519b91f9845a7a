"""Which models have kept batch requests waiting for capacity, and which of them were reported.

A wait begins with a deployment's first answer that it is queued, and ends when the model serves a request (see
ebbtide.batches.rests). Each change of what is reported is one guarded statement, so that one process alone makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "waiting.sql")


@dataclass(frozen=True, slots=True)
class WaitingModel:
    """A model, and since when its requests have been waiting."""

    model: str
    since: datetime


async def raise_waiting(conn: Connection, before: datetime, now: datetime) -> list[WaitingModel]:
    """Report those that have waited since before a moment; only those that nobody has reported come back."""
    rows = await conn.fetch(_Q["raise_waiting"], now, before)
    return [WaitingModel(row["model"], row["waiting_since"]) for row in rows]


async def resolve_waiting(conn: Connection) -> list[str]:
    """Take back the reports of models that have served again."""
    return [row["model"] for row in await conn.fetch(_Q["resolve_waiting"])]


async def forget_waiting(conn: Connection) -> None:
    await conn.execute(_Q["forget_waiting"])


async def list_alerted(conn: Connection) -> list[str]:
    return [row["model"] for row in await conn.fetch(_Q["list_alerted"])]
