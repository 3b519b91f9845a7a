"""First-run set-up: a one-time code, printed where the gateway was started, makes the first administrator who signs in.

It is open while no account has a password. The code is stored hashed, and one process of a deployment makes and prints
it; whoever uses it up first is the one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from ebbtide import ids
from ebbtide.accounts import sessions_store, setup_store, store
from ebbtide.accounts.accounts import checked_name
from ebbtide.accounts.attempts import PER_ADDRESS, PER_NAME, by_address, count_attempt
from ebbtide.accounts.keys import digest
from ebbtide.accounts.passwords import check_password
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.accounts.sessions_store import Secret
from ebbtide.accounts.store import Account
from ebbtide.errors import Conflict, Forbidden
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.pool import Connection, Database

_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # no I, O, 0, 1
_GROUPS, _GROUP = 5, 5  # 125 random bits


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody sets the gateway up with, and from where."""

    code: str
    name: str
    password: str
    address: str


async def is_open(database: Database) -> bool:
    """Whether the gateway waits for its first sign-in."""
    async with database.connection() as conn:
        return await setup_store.is_open(conn)


async def ensure_code(database: Database, now: datetime) -> str | None:
    """The set-up code, to the one caller that made it; None to every other, and once an account has a password."""
    code = _new_code()
    async with database.transaction() as conn:
        return code if await setup_store.add_code(conn, _hash(code), now) else None


async def renew_code(database: Database, actor: str, now: datetime) -> str:
    """A new code in place of the one before. Raises Conflict when an account has a password already."""
    code = _new_code()
    async with database.transaction() as conn:
        if not await setup_store.renew_code(conn, _hash(code), now):
            raise _closed()
        await add_audit(conn, Deed(actor, "setup.renew", "setup"), now)
    return code


async def claim(database: Database, sessions: Sessions, given: Claim, now: datetime) -> str:
    """Use the code up: a password for the administrator of that name, made when there is none, and a session's secret.

    Raises Forbidden for a wrong code, Conflict when set-up is over or the name is another account's, InvalidRequest for
    an unusable name or password (the code stays good), LimitReached.
    """
    await count_attempt(database, by_address(given.address), PER_ADDRESS, now)
    await count_attempt(database, "setup", PER_NAME, now)
    name = checked_name(given.name)
    await _check_code(database, given.code)
    check_password(name, given.password)
    hashed = await sessions.passwords.hash(given.password)
    async with database.transaction() as conn:
        if not await setup_store.use_code(conn, _hash(given.code)):
            raise _closed()
        account = await _administrator(conn, name, now)
        await sessions_store.set_password(conn, account.id, hashed)
        await add_audit(conn, Deed("setup", "setup.claim", account.id, account.id), now)
        secret = await sessions.open(conn, Secret(account.id, Role.ADMIN, hashed), now)
        if secret is None:
            raise _closed()
    return secret


async def _check_code(database: Database, code: str) -> None:
    async with database.connection() as conn:
        if not await setup_store.is_open(conn):
            raise _closed()
        if not await setup_store.holds(conn, _hash(code)):
            raise _wrong()


async def _administrator(conn: Connection, name: str, now: datetime) -> Account:
    account = Account(ids.account_id(), name, Role.ADMIN, "active", now)
    if await store.add_account(conn, account):
        return account
    found = await store.find_account(conn, name)
    if found is None or found.name != name or found.role is not Role.ADMIN or found.state != "active":
        raise Conflict("An account of this name exists, and it is not an active administrator's", param="name")
    return found


def _new_code() -> str:
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP)) for _ in range(_GROUPS))


def _hash(code: str) -> bytes:
    return digest("".join(letter for letter in code.upper() if letter in _ALPHABET))


def _wrong() -> Forbidden:
    return Forbidden("This is not the set-up code: `ebbtide accounts setup-code` prints a new one")


def _closed() -> Conflict:
    return Conflict("The gateway is set up already: sign in")
