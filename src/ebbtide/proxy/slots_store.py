"""The statements about slots, one typed function each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.proxy", "slots.sql")


async def lock_account(conn: Connection, account_id: str) -> None:
    await conn.execute(_Q["lock_account"], account_id)


async def slots_elsewhere(conn: Connection, account_id: str, process: str) -> int:
    held: int = await conn.fetchval(_Q["slots_elsewhere"], account_id, process)
    return held


async def set_slots(conn: Connection, account: tuple[str, str], slots: int, seconds: float, *, asked: bool) -> None:
    """`account`: its id, and the process that holds the slots."""
    await conn.execute(_Q["set_slots"], *account, slots, asked, seconds)


async def keep_slots(conn: Connection, process: str, slots: Mapping[str, int], seconds: float) -> dict[str, int]:
    """`slots` by account. Returns what others hold, by account; those whose lease had lapsed are not in it."""
    rows = await conn.fetch(_Q["keep_slots"], process, list(slots), list(slots.values()), seconds)
    return {row["account_id"]: row["elsewhere"] for row in rows}


async def wanted_elsewhere(conn: Connection, account_ids: Sequence[str], process: str) -> set[str]:
    rows = await conn.fetch(_Q["wanted_elsewhere"], account_ids, process)
    return {row["account_id"] for row in rows}


async def drop_slots(conn: Connection, process: str, account_ids: Sequence[str]) -> None:
    await conn.execute(_Q["drop_slots"], process, account_ids)


async def end_slots(conn: Connection, process: str) -> None:
    await conn.execute(_Q["end_slots"], process)
