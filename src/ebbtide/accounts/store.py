"""The accounts' statements, one typed function each; rows come back as this room's own types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from asyncpg import Record

from ebbtide.accounts.roles import Role
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

Q: Final = load_queries("ebbtide.accounts", "store.sql")

AccountState: TypeAlias = Literal["active", "suspended", "deleted"]


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns keys, batches and files. Quotas in USD; caps of requests running at once, interactive ones and those of
    batches (0: none). None is its role's.
    """

    id: str
    name: str
    role: Role
    state: AccountState
    created_at: datetime
    daily_quota_usd: Decimal | None = None
    monthly_quota_usd: Decimal | None = None
    max_concurrency: int | None = None
    batch_max_concurrency: int | None = None
    email: str | None = None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it may be shown: its prefix tells it from others and opens nothing. Budgets in USD; None is no limit."""

    id: str
    account_id: str
    name: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    daily_budget_usd: Decimal | None
    monthly_budget_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: an account, and the key it asks with."""

    account_id: str
    key_id: str
    role: Role

    @property
    def actor(self) -> str:
        """How the audit log names it."""
        return f"{self.account_id}/{self.key_id}"

    def may_see(self, account_id: str) -> bool:
        """Whether what belongs to `account_id` may be shown: one's own, and anything to an administrator."""
        return account_id == self.account_id or self.role is Role.ADMIN


@dataclass(frozen=True, slots=True)
class Found:
    """A principal, and until when its key holds (None: until revoked)."""

    principal: Principal
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key's row before it is stored; `hash` is the SHA-256 of the secret."""

    id: str
    account_id: str
    name: str
    prefix: str
    hash: bytes
    created_at: datetime
    expires_at: datetime | None


async def add_account(conn: Connection, account: Account) -> bool:
    row = await conn.fetchrow(Q["add_account"], account.id, account.name, account.role.value, account.created_at)
    return row is not None


async def add_first_admin(conn: Connection, account_id: str, name: str, now: datetime) -> bool:
    return await conn.fetchrow(Q["add_first_admin"], account_id, name, now) is not None


async def find_account(conn: Connection, id_or_name: str) -> Account | None:
    return _account(await conn.fetchrow(Q["find_account"], id_or_name))


async def list_accounts(conn: Connection) -> list[Account]:
    return [account for row in await conn.fetch(Q["list_accounts"]) if (account := _account(row))]


async def lock_admins(conn: Connection) -> list[str]:
    return [row["id"] for row in await conn.fetch(Q["lock_admins"])]


async def set_email(conn: Connection, account_id: str, email: str) -> None:
    await conn.execute(Q["set_email"], account_id, email)


async def add_key(conn: Connection, key: NewKey) -> ApiKey | None:
    values = (key.id, key.account_id, key.name, key.prefix, key.hash, key.created_at, key.expires_at)
    return _key(await conn.fetchrow(Q["add_key"], *values))


async def list_keys(conn: Connection, account_id: str | None) -> list[ApiKey]:
    return [key for row in await conn.fetch(Q["list_keys"], account_id) if (key := _key(row))]


async def get_key(conn: Connection, key_id: str) -> ApiKey | None:
    return _key(await conn.fetchrow(Q["get_key"], key_id))


async def revoke_key(conn: Connection, key_id: str, now: datetime) -> ApiKey | None:
    return _key(await conn.fetchrow(Q["revoke_key"], key_id, now))


async def find_key(conn: Connection, digest: bytes, now: datetime) -> Found | None:
    row = await conn.fetchrow(Q["find_key"], digest, now)
    return None if row is None else _found(row)


async def record_key_use(conn: Connection, uses: Mapping[str, datetime], every: timedelta) -> None:
    await conn.execute(Q["record_key_use"], list(uses), list(uses.values()), every)


def _account(row: Record | None) -> Account | None:
    if row is None:
        return None
    return Account(**{**row, "role": Role(row["role"])})


def _key(row: Record | None) -> ApiKey | None:
    return None if row is None else ApiKey(**dict(row))


def _found(row: Record) -> Found:
    principal = Principal(row["account_id"], row["key_id"], Role(row["role"]))
    return Found(principal, row["expires_at"])
