"""Accounts: made, listed, promoted, suspended and deleted. A deleted account keeps its rows and frees its name."""

from __future__ import annotations

from datetime import datetime

from ebbtide import ids
from ebbtide.accounts import store
from ebbtide.accounts.keys import issue_key
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions_store import end_sessions
from ebbtide.accounts.store import Account, AccountState
from ebbtide.errors import Conflict, InvalidRequest, NotFound
from ebbtide.storage.pool import Connection, Database

FIRST_ADMIN = "admin"
_MAX_NAME = 200
_MAX_EMAIL = 254


async def create_account(database: Database, name: str, role: Role, now: datetime) -> Account:
    """A new active account. Raises InvalidRequest for an unusable name, Conflict for a taken one."""
    account = Account(ids.account_id(), checked_name(name), role, "active", now)
    async with database.transaction() as conn:
        if not await store.add_account(conn, account):
            raise name_taken(account.name)
    return account


async def list_accounts(database: Database) -> list[Account]:
    """Every account that was not deleted, oldest first."""
    async with database.connection() as conn:
        return await store.list_accounts(conn)


async def find_account(database: Database, id_or_name: str) -> Account:
    """A living account by id or by name. Raises NotFound."""
    async with database.connection() as conn:
        account = await store.find_account(conn, id_or_name)
    if account is None:
        raise _missing(id_or_name)
    return account


async def set_role(database: Database, account_id: str, role: Role) -> Account:
    """Give the account another role, in force everywhere within a second. Raises NotFound, and Conflict for
    the last administrator.
    """
    async with database.transaction() as conn:
        if role is not Role.ADMIN:
            await keep_an_admin(conn, account_id)
        account = await store.set_role(conn, account_id, role)
    if account is None:
        raise _missing(account_id)
    return account


async def suspend_account(database: Database, account_id: str) -> Account:
    """End the account's sessions and refuse its keys until it is resumed.

    Raises NotFound, and Conflict for the last administrator that may act.
    """
    return await _set_state(database, account_id, "suspended")


async def resume_account(database: Database, account_id: str) -> Account:
    """Undo a suspension. Raises NotFound."""
    return await _set_state(database, account_id, "active")


async def delete_account(database: Database, account_id: str) -> Account:
    """Refuse the account's keys for good and free its name; its rows stay.

    Raises NotFound, and Conflict for the last administrator that may act: nobody could make another over HTTP.
    """
    async with database.transaction() as conn:
        await keep_an_admin(conn, account_id)
        account = await store.set_state(conn, account_id, "deleted")
        await end_sessions(conn, account_id, None)
    if account is None:
        raise _missing(account_id)
    return account


async def ensure_admin(database: Database, now: datetime) -> str | None:
    """Make the first administrator and its key, once, however many processes start together.

    Returns the key's secret to the one caller that made it, None to every other and ever after.
    """
    account_id = ids.account_id()
    async with database.transaction() as conn:
        if not await store.add_first_admin(conn, account_id, FIRST_ADMIN, now):
            return None
        _, secret = await issue_key(conn, account_id, name="first key", expires_at=None, now=now)
    return secret


async def _set_state(database: Database, account_id: str, state: AccountState) -> Account:
    async with database.transaction() as conn:
        if state != "active":
            await keep_an_admin(conn, account_id)
        account = await store.set_state(conn, account_id, state)
        if state != "active":
            await end_sessions(conn, account_id, None)
    if account is None:
        raise _missing(account_id)
    return account


async def keep_an_admin(conn: Connection, account_id: str) -> None:
    """Raise Conflict when the account is the last administrator that may act; they stay as they are until the end."""
    if await store.lock_admins(conn) == [account_id]:
        raise Conflict("This is the last administrator; make another one first")


def checked_name(name: str) -> str:
    """The name as it is kept. Raises InvalidRequest for an unusable one."""
    name = name.strip()
    if not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        raise InvalidRequest(f"An account's name has 1 to {_MAX_NAME} printable characters", param="name")
    return name


def is_email(text: str) -> bool:
    """Whether it may be kept as an e-mail address; whether mail arrives there, nobody has tried."""
    local, _, domain = text.rpartition("@")
    return bool(local and domain) and len(text) <= _MAX_EMAIL and text.isprintable() and " " not in text


def checked_email(text: str) -> str:
    """The address as it is kept. Raises InvalidRequest for what is none."""
    text = text.strip()
    if not is_email(text):
        raise InvalidRequest(f"An e-mail address has an @ and at most {_MAX_EMAIL} characters", param="email")
    return text


def name_taken(name: str) -> Conflict:
    return Conflict(f"An account named {name!r} exists already", param="name")


def _missing(account: str) -> NotFound:
    return NotFound(f"There is no account {account!r}")
