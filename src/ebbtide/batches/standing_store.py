"""What stands in the way of work, or does not: rooms and rests of models, accounts and keys, reservations.

One typed function per statement; what they mean together is ebbtide.worker's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from ebbtide.accounts.roles import Role
from ebbtide.batches.rests import ModelState
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "standing.sql")


@dataclass(frozen=True, slots=True)
class ModelStanding:
    """A model's own cap (None: it has none), how it fares, and what other processes have in flight on it."""

    cap: int | None
    state: ModelState
    room_reason: str | None
    interactive: int


async def read_room(conn: Connection, model: str, process: str) -> ModelStanding:
    """`process` is this one's name in the shared load: its own requests are left out."""
    row = await conn.fetchrow(_Q["read_room"], model, process)
    assert row is not None
    state = ModelState(
        row["failures"],
        row["rest_level"],
        row["rest_until"],
        row["rest_reason"],
        row["waiting_since"],
        row["alerted_at"],
    )
    return ModelStanding(row["cap"] if row["has_cap"] else None, state, row["room_reason"], row["interactive"])


async def set_room_reason(conn: Connection, model: str, reason: str | None) -> None:
    await conn.execute(_Q["set_room_reason"], model, reason)


async def lock_model_states(conn: Connection, models: Sequence[str]) -> dict[str, ModelState]:
    rows = await conn.fetch(_Q["lock_model_states"], models)
    return {row["model"]: ModelState(*list(row.values())[1:]) for row in rows}


async def save_model_state(conn: Connection, model: str, state: ModelState) -> None:
    await conn.execute(
        _Q["save_model_state"],
        model,
        state.failures,
        state.rest_level,
        state.rest_until,
        state.rest_reason,
        state.waiting_since,
        state.alerted_at,
    )


@dataclass(frozen=True, slots=True)
class UserState:
    """An account's recent batch time in seconds, whether its cap was last seen to hold it back, its role, and its own
    cap of running batch requests (None: its role's, 0: none).
    """

    service: float
    at_cap: bool
    role: Role
    own_cap: int | None


async def lock_user_states(conn: Connection, account_ids: Sequence[str], now: datetime) -> dict[str, UserState]:
    """By account; every account is locked until the transaction ends."""
    rows = await conn.fetch(_Q["lock_user_states"], account_ids, now)
    return {
        row["account_id"]: UserState(float(row["service_seconds"]), row["at_cap"], Role(row["role"]), row["own_cap"])
        for row in rows
    }


async def add_service(conn: Connection, seconds: Mapping[str, float], now: datetime) -> None:
    """`seconds` by account; the rows are locked."""
    await conn.execute(_Q["add_service"], list(seconds), list(seconds.values()), now)


async def set_at_cap(conn: Connection, accounts: Mapping[str, bool]) -> None:
    await conn.execute(_Q["set_at_cap"], list(accounts), list(accounts.values()))


async def park_account(conn: Connection, account_id: str, reason: str, until: datetime) -> None:
    await conn.execute(_Q["park_account"], account_id, reason, until)


async def unpark_accounts(conn: Connection, account_ids: Sequence[str]) -> None:
    await conn.execute(_Q["unpark_accounts"], account_ids)


async def park_key(conn: Connection, key_id: str, reason: str, until: datetime) -> None:
    await conn.execute(_Q["park_key"], key_id, reason, until)


async def unpark_keys(conn: Connection, key_ids: Sequence[str]) -> None:
    await conn.execute(_Q["unpark_keys"], key_ids)


async def reserved(conn: Connection, account_ids: Sequence[str], but_worker: int) -> dict[tuple[str, str], Decimal]:
    """USD by (account, key)."""
    rows = await conn.fetch(_Q["reserved"], account_ids, but_worker)
    return {(row["account_id"], row["key_id"]): row["cost_usd"] for row in rows}


async def set_reservations(conn: Connection, worker_no: int, rows: Sequence[tuple[str, str, Decimal]]) -> None:
    """`rows`: (key, account, USD)."""
    keys, accounts, costs = zip(*rows, strict=True)
    await conn.execute(_Q["set_reservations"], worker_no, keys, accounts, costs)


async def put_back(conn: Connection, items: Sequence[tuple[int, int, int]], ready_at: datetime) -> None:
    """`items`: (batch, item, epoch), claimed in this very transaction."""
    batch_nos, item_ids, epochs = zip(*items, strict=True)
    await conn.execute(_Q["put_back"], batch_nos, item_ids, epochs, ready_at)
