"""The statements of passwords, sessions and attempts to sign in, one typed function each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

Q: Final = load_queries("ebbtide.accounts", "sessions.sql")


@dataclass(frozen=True, slots=True)
class Secret:
    """Who has proved to be an account, and the hash of the password that did it (None: something else did)."""

    account_id: str
    role: Role
    hash: str | None


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session's row before it is stored: `hash` is the SHA-256 of the cookie, `password` the hash that let it in."""

    hash: bytes
    account_id: str
    key_id: str
    password: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Session:
    """A session as it may be shown."""

    created_at: datetime
    used_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ManagedKey:
    """A console key's row before it is stored."""

    id: str
    account_id: str
    prefix: str
    hash: bytes
    created_at: datetime


async def find_password(conn: Connection, name: str) -> Secret | None:
    row = await conn.fetchrow(Q["find_password"], name)
    return None if row is None else Secret(row["id"], Role(row["role"]), row["password_hash"])


async def find_own_password(conn: Connection, account_id: str) -> tuple[str, str | None] | None:
    """The account's name and hash; None when it may not act."""
    row = await conn.fetchrow(Q["find_own_password"], account_id)
    return None if row is None else (row["name"], row["password_hash"])


async def set_password(conn: Connection, account_id: str, hashed: str) -> bool:
    return await conn.fetchrow(Q["set_password"], account_id, hashed) is not None


async def renew_hash(conn: Connection, account_id: str, old: str, new: str) -> None:
    await conn.execute(Q["renew_hash"], account_id, old, new)


async def console_key(conn: Connection, key: ManagedKey) -> str:
    """The id of the account's console key; `key` becomes it when there is none."""
    await conn.execute(Q["add_console_key"], key.id, key.account_id, key.prefix, key.hash, key.created_at)
    row = await conn.fetchrow(Q["console_key"], key.account_id)
    return key.id if row is None else str(row["id"])


async def add_session(conn: Connection, new: NewSession) -> bool:
    values = (new.hash, new.account_id, new.key_id, new.password, new.created_at, new.expires_at)
    return await conn.fetchrow(Q["add_session"], *values) is not None


async def find_session(
    conn: Connection, digest: bytes, now: datetime, idle: timedelta
) -> tuple[Principal, datetime] | None:
    """Whose session this is, and when it was last used."""
    row = await conn.fetchrow(Q["find_session"], digest, now, idle)
    if row is None:
        return None
    return Principal(row["account_id"], row["key_id"], Role(row["role"])), row["used_at"]


async def list_sessions(conn: Connection, account_id: str, now: datetime) -> list[Session]:
    return [Session(**dict(row)) for row in await conn.fetch(Q["list_sessions"], account_id, now)]


async def touch_session(conn: Connection, digest: bytes, now: datetime) -> None:
    await conn.execute(Q["touch_session"], digest, now)


async def end_session(conn: Connection, digest: bytes) -> bool:
    return await conn.fetchrow(Q["end_session"], digest) is not None


async def end_sessions(conn: Connection, account_id: str, but: bytes | None) -> int:
    return len(await conn.fetch(Q["end_sessions"], account_id, but))


async def drop_sessions(conn: Connection, now: datetime) -> None:
    await conn.execute(Q["drop_sessions"], now)


async def count_attempt(conn: Connection, subject: str, now: datetime, until: datetime) -> tuple[int, datetime]:
    """How often the subject tried in its time, this time included, and when that time ends."""
    row = await conn.fetchrow(Q["count_attempt"], subject, now, until)
    assert row is not None
    return row["tries"], row["until"]


async def forget_attempts(conn: Connection, subject: str) -> None:
    await conn.execute(Q["forget_attempts"], subject)


async def drop_attempts(conn: Connection, now: datetime) -> None:
    await conn.execute(Q["drop_attempts"], now)
