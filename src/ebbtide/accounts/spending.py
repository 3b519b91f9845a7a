"""What an account and its keys were charged today and this month (UTC), beside what they may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from asyncpg import Record

from ebbtide.accounts.roles import Role
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.accounts", "spending.sql")
MOST_KEYS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Spending:
    """In USD; a limit of None is none."""

    daily: Decimal | None
    monthly: Decimal | None
    spent_day: Decimal
    spent_month: Decimal


@dataclass(frozen=True, slots=True)
class KeySpending:
    """A key's, against its budgets."""

    key_id: str
    name: str
    spending: Spending


async def account_spending(conn: Connection, account_id: str, now: datetime, settings: Settings) -> Spending:
    """A living account's, against its quotas."""
    roles = [role.value for role in Role]
    daily, monthly = zip(*(settings.quotas_usd(role) for role in roles), strict=True)
    row = await conn.fetchrow(_Q["account_spending"], account_id, now.date(), roles, daily, monthly)
    assert row is not None
    return _spending(row)


async def key_spending(conn: Connection, account_id: str, now: datetime) -> list[KeySpending]:
    """Of the keys that work or were charged this month; the oldest thousand."""
    rows = await conn.fetch(_Q["key_spending"], account_id, now.date(), now, MOST_KEYS)
    return [KeySpending(row["id"], row["name"], _spending(row)) for row in rows]


def _spending(row: Record) -> Spending:
    return Spending(row["daily"], row["monthly"], row["spent_day"], row["spent_month"])
