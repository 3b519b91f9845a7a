"""Accounts and keys as administrators and their owners list and change them over HTTP.

Each change stands in the audit log, written in its own transaction. Some administrator that may act always remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from asyncpg import Record

from ebbtide import ids
from ebbtide.accounts import store
from ebbtide.accounts.accounts import checked_email, checked_name, keep_an_admin, name_taken
from ebbtide.accounts.keys import find_key, issue_key
from ebbtide.accounts.quotas import LIMITS_CHANNEL, Amounts, check_amounts, check_cap, usd_text
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions_store import end_sessions
from ebbtide.accounts.store import Account, ApiKey
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.page import Page
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.accounts", "directory.sql")
_LIMITS = load_queries("ebbtide.accounts", "quotas.sql")


@dataclass(frozen=True, slots=True)
class AccountQuery:
    """Which accounts, and which page of them; None does not narrow."""

    after: str | None
    search: str | None
    role: str | None
    state: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class NewAccount:
    """An account to be made."""

    name: str
    role: Role
    quotas: Amounts
    email: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose something is."""

    name: str
    email: str | None


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who signs in by OpenID Connect: the subject as its issuer names it."""

    issuer: str
    subject: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KeyWish:
    """A key to be made."""

    account_id: str
    name: str
    expires_at: datetime | None
    budgets: Amounts


@dataclass(frozen=True, slots=True)
class Spent:
    """What an account was charged, in USD; days and months are UTC."""

    day: Decimal
    month: Decimal


async def page_accounts(database: Database, query: AccountQuery) -> Page[Account]:
    """Living accounts, or deleted ones where these are asked for, oldest first.

    Raises InvalidRequest for a cursor that is no account's.
    """
    async with database.connection() as conn:
        if query.after is not None and not await conn.fetchval(_Q["knows_account"], query.after):
            raise InvalidRequest("after is not the id of an account", param="after")
        filters = (query.after, query.search, query.role)
        if query.state == "deleted":
            rows = await conn.fetch(_Q["page_deleted_accounts"], *filters, query.limit + 1)
        else:
            rows = await conn.fetch(_Q["page_accounts"], *filters, query.state, query.limit + 1)
    accounts = [_account(row) for row in rows]
    return Page(accounts[: query.limit], len(accounts) > query.limit)


async def get_account(database: Database, account_id: str) -> Account:
    """Raises NotFound."""
    async with database.connection() as conn:
        return _found(await conn.fetchrow(_Q["get_account"], account_id), account_id)


async def create_account(database: Database, new: NewAccount, actor: str, now: datetime) -> Account:
    """Make an account. Raises InvalidRequest, and Conflict for a taken name."""
    check_amounts(new.quotas)
    name, email = checked_name(new.name), None if new.email is None else checked_email(new.email)
    quotas = (new.quotas.daily, new.quotas.monthly)
    account = Account(ids.account_id(), name, new.role, "active", now, *quotas, email=email)
    async with database.transaction() as conn:
        if not await store.add_account(conn, account):
            raise name_taken(account.name)
        await _write(conn, account)
        deed = Deed(actor, "account.create", account.id, account_id=account.id, detail=_told(account))
        await add_audit(conn, deed, now)
    return account


async def change_account(
    database: Database, account_id: str, given: Mapping[str, Any], actor: str, now: datetime
) -> Account:
    """Change the fields of `given`, named as in Account. Raises NotFound, InvalidRequest, Conflict."""
    async with database.transaction() as conn:
        if given.get("role", Role.ADMIN) is not Role.ADMIN or given.get("state", "active") != "active":
            await keep_an_admin(conn, account_id)
        before = _found(await conn.fetchrow(_Q["lock_account"], account_id), account_id)
        after = replace(before, **given)
        email = None if after.email is None else checked_email(after.email)
        after = replace(after, name=checked_name(after.name), email=email)
        await _check(conn, after)
        if after.state != "active":
            await end_sessions(conn, account_id, None)
        if after != before:
            await _write(conn, after)
            await add_audit(conn, _deed(actor, before, after), now)
            await notify(conn, LIMITS_CHANNEL)
    return after


async def _check(conn: Connection, account: Account) -> None:
    check_amounts(Amounts(account.daily_quota_usd, account.monthly_quota_usd))
    check_cap("max_concurrency", account.max_concurrency)
    check_cap("batch_max_concurrency", account.batch_max_concurrency)
    if await conn.fetchval(_Q["name_taken"], account.id, account.name):
        raise name_taken(account.name)


async def _write(conn: Connection, account: Account) -> None:
    quotas = (account.daily_quota_usd, account.monthly_quota_usd)
    caps = (account.max_concurrency, account.batch_max_concurrency)
    values = (account.id, account.name, account.role.value, account.state, *quotas, *caps, account.email)
    await conn.execute(_Q["change_account"], *values)


def _deed(actor: str, before: Account, after: Account) -> Deed:
    old, new = _told(before), _told(after)
    changed = [name for name in new if old[name] != new[name]]
    detail = {"old": {name: old[name] for name in changed}, "new": {name: new[name] for name in changed}}
    action = "account.delete" if after.state == "deleted" else "account.change"
    return Deed(actor, action, after.id, account_id=after.id, detail=detail)


async def spent(database: Database, account_id: str, today: date) -> Spent:
    async with database.connection() as conn:
        row = await conn.fetchrow(_Q["spent"], account_id, today)
    assert row is not None
    return Spent(row["day"], row["month"])


async def account_owners(database: Database, account_ids: Sequence[str]) -> dict[str, Owner]:
    """By id; deleted accounts keep theirs, and one that is gone is called by its id."""
    async with database.connection() as conn:
        rows = await conn.fetch(_Q["account_names"], list(set(account_ids)))
    return {account_id: Owner(account_id, None) for account_id in account_ids} | {
        row["id"]: Owner(row["name"], row["email"]) for row in rows
    }


async def signs_in(database: Database, account_id: str) -> tuple[bool, list[Identity]]:
    """Whether an account has a password, and who signs in as it by OpenID Connect."""
    async with database.connection() as conn:
        has_password = bool(await conn.fetchval(_Q["has_password"], account_id))
        rows = await conn.fetch(_Q["list_identities"], account_id)
    return has_password, [Identity(**dict(row)) for row in rows]


async def page_keys(database: Database, account_id: str, after: str | None, limit: int) -> Page[ApiKey]:
    """An account's keys, oldest first. Raises NotFound, and InvalidRequest for a cursor that is none of its keys."""
    async with database.connection() as conn:
        _found(await conn.fetchrow(_Q["get_account"], account_id), account_id)
        if after is not None and not await conn.fetchval(_Q["knows_key"], account_id, after):
            raise InvalidRequest("after is not the id of one of the account's keys", param="after")
        keys = [ApiKey(**dict(row)) for row in await conn.fetch(_Q["page_keys"], account_id, after, limit + 1)]
    return Page(keys[:limit], len(keys) > limit)


async def create_key(database: Database, wish: KeyWish, actor: str, now: datetime) -> tuple[ApiKey, str]:
    """A new key and its secret, which nobody can read again. Raises NotFound, InvalidRequest."""
    check_amounts(wish.budgets)
    if wish.expires_at is not None and wish.expires_at <= now:
        raise InvalidRequest("expires_at must be in the future", param="expires_at")
    async with database.transaction() as conn:
        key, secret = await issue_key(conn, wish.account_id, name=wish.name, expires_at=wish.expires_at, now=now)
        await conn.execute(_LIMITS["set_budgets"], key.id, wish.budgets.daily, wish.budgets.monthly)
        detail = {"prefix": key.prefix, "budgets": wish.budgets.told}
        await add_audit(conn, Deed(actor, "key.create", key.id, account_id=wish.account_id, detail=detail), now)
    return replace(key, daily_budget_usd=wish.budgets.daily, monthly_budget_usd=wish.budgets.monthly), secret


async def revoke_key(database: Database, key_id: str, actor: str, now: datetime) -> ApiKey:
    """Revoke a key of a living account for good. Raises NotFound."""
    before = await find_key(database, key_id)
    async with database.transaction() as conn:
        key = await store.revoke_key(conn, key_id, now)
        if key is None:
            raise NotFound(f"There is no key {key_id!r}")
        if before.revoked_at is None:
            await add_audit(conn, Deed(actor, "key.revoke", key.id, account_id=key.account_id), now)
    return key


def _account(row: Record) -> Account:
    return Account(**{**row, "role": Role(row["role"])})


def _found(row: Record | None, account_id: str) -> Account:
    if row is None:
        raise NotFound(f"There is no account {account_id[:200]!r}")
    return _account(row)


def _told(account: Account) -> dict[str, str | int | None]:
    return {
        "name": account.name,
        "role": account.role.value,
        "state": account.state,
        "email": account.email,
        "daily_quota_usd": usd_text(account.daily_quota_usd),
        "monthly_quota_usd": usd_text(account.monthly_quota_usd),
        "max_concurrency": account.max_concurrency,
        "batch_max_concurrency": account.batch_max_concurrency,
    }
