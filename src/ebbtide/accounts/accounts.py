"""Accounts: found, and the rules of their names and of who must remain. A deleted one keeps its rows, not its name."""

from __future__ import annotations

from datetime import datetime

from ebbtide import ids
from ebbtide.accounts import store
from ebbtide.accounts.keys import issue_key
from ebbtide.accounts.store import Account
from ebbtide.errors import Conflict, InvalidRequest, NotFound
from ebbtide.storage.pool import Connection, Database

FIRST_ADMIN = "admin"
_MAX_NAME = 200
_MAX_EMAIL = 254


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
