"""Accounts and keys as tests need them: made and changed by what the product does it with, in a line each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ebbtide.accounts import directory
from ebbtide.accounts.directory import KeyWish, NewAccount
from ebbtide.accounts.quotas import UNLIMITED
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Account, ApiKey
from ebbtide.storage.pool import Database

ACTOR = "cli:test"


async def create_account(database: Database, name: str, role: Role, now: datetime) -> Account:
    return await directory.create_account(database, NewAccount(name, role, UNLIMITED), ACTOR, now)


async def set_role(database: Database, account_id: str, role: Role) -> Account:
    return await _change(database, account_id, role=role)


async def suspend_account(database: Database, account_id: str) -> Account:
    return await _change(database, account_id, state="suspended")


async def resume_account(database: Database, account_id: str) -> Account:
    return await _change(database, account_id, state="active")


async def delete_account(database: Database, account_id: str) -> Account:
    return await _change(database, account_id, state="deleted")


async def create_key(
    database: Database, account_id: str, *, name: str = "", expires_in: timedelta | None = None, now: datetime
) -> tuple[ApiKey, str]:
    expires_at = None if expires_in is None else now + expires_in
    return await directory.create_key(database, KeyWish(account_id, name, expires_at, UNLIMITED), ACTOR, now)


async def revoke_key(database: Database, key_id: str, now: datetime) -> ApiKey:
    return await directory.revoke_key(database, key_id, ACTOR, now)


async def _change(database: Database, account_id: str, **given: Any) -> Account:
    return await directory.change_account(database, account_id, given, ACTOR, datetime.now(UTC))
