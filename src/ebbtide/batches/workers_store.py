"""Workers, their leases and their slots: one typed function per statement. Leases are on the database's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ebbtide.batches.model import KNOWN
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "workers.sql")


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item that a worker holds; `attempts` counted so far, before the present one."""

    batch_no: int
    id: int
    model: str
    claim_epoch: int
    attempts: int


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """Slots that one living worker holds of a model for one account; `wants` more and got none lately."""

    account_id: str
    worker_no: int
    slots: int
    wants: bool


async def register_worker(conn: Connection, host: str, pid: int, version: str, lease_seconds: float) -> int:
    surfaces, targets, schema_version = KNOWN
    return int(
        await conn.fetchval(_Q["register_worker"], host, pid, version, schema_version, surfaces, targets, lease_seconds)
    )


async def worker_began(conn: Connection, worker_no: int) -> datetime:
    began = await conn.fetchval(_Q["worker_began"], worker_no)
    assert isinstance(began, datetime)
    return began


async def living_workers(conn: Connection) -> list[tuple[int, datetime]]:
    """Those whose lease runs, with the moment each began."""
    return [(row["no"], row["started_at"]) for row in await conn.fetch(_Q["living_workers"])]


async def lapse_worker(conn: Connection, worker_no: int) -> None:
    """End the lease of a worker that is known to be dead."""
    await conn.execute(_Q["lapse_worker"], worker_no)


async def beat(conn: Connection, worker_no: int, lease_seconds: float) -> bool:
    """False when the lease has lapsed, and with it everything the worker held."""
    return await conn.fetchval(_Q["beat"], worker_no, lease_seconds) is not None


async def assert_alive(conn: Connection, worker_no: int) -> bool:
    """False when the worker's lease has lapsed: it must not claim."""
    return await conn.fetchval(_Q["assert_alive"], worker_no) is not None


async def end_worker(conn: Connection, worker_no: int) -> None:
    """The worker is gone, or, where it yet holds items, to be taken over from."""
    await conn.execute(_Q["lock_worker"], worker_no)
    await conn.execute(_Q["drop_worker_slots"], worker_no)
    await conn.execute(_Q["end_worker"], worker_no)


async def lapsed_workers(conn: Connection) -> list[int]:
    """Some of which this build may take something over."""
    return [row["no"] for row in await conn.fetch(_Q["lapsed_workers"], *KNOWN)]


async def lock_lapsed(conn: Connection, worker_no: int) -> bool:
    """False when there is nothing to take over any more, or somebody else is at it."""
    return await conn.fetchval(_Q["lock_lapsed"], worker_no) is not None


async def held_batches(conn: Connection, worker_no: int, limit: int) -> list[int]:
    return [row["batch_no"] for row in await conn.fetch(_Q["held_batches"], worker_no, limit, *KNOWN)]


async def held_items(conn: Connection, worker_no: int, batch_nos: Sequence[int]) -> list[HeldItem]:
    """`batch_nos` are locked."""
    return [HeldItem(**row) for row in await conn.fetch(_Q["held_items"], worker_no, batch_nos)]


async def holds_live_lease(conn: Connection, batch_no: int) -> bool:
    return bool(await conn.fetchval(_Q["holds_live_lease"], batch_no))


async def end_lapsed(conn: Connection, worker_no: int) -> None:
    """A lapsed worker is gone, unless it still holds something."""
    await conn.execute(_Q["drop_worker_slots"], worker_no)
    await conn.execute(_Q["end_lapsed"], worker_no)


async def prune_workers(conn: Connection) -> None:
    await conn.execute(_Q["prune_workers"])


async def list_slots(conn: Connection, model: str) -> list[HeldSlots]:
    return [HeldSlots(**row) for row in await conn.fetch(_Q["list_slots"], model)]


async def account_slots(conn: Connection, account_ids: Sequence[str], but_model: str) -> dict[str, int]:
    rows = await conn.fetch(_Q["account_slots"], account_ids, but_model)
    return {row["account_id"]: row["slots"] for row in rows}


async def set_slots(conn: Connection, model: str, worker_no: int, rows: Sequence[tuple[str, int, int]]) -> None:
    """`rows`: (account, slots held, slots asked for and not granted)."""
    if rows:
        accounts, slots, wanted = zip(*rows, strict=True)
        await conn.execute(_Q["set_slots"], model, worker_no, accounts, slots, wanted)
    if any(slots == 0 and wanted == 0 for _, slots, wanted in rows):
        await conn.execute(_Q["drop_slots"], model)
