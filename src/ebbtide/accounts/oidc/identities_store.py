"""The statements of linked identities, one typed function each."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Account
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

Q: Final = load_queries("ebbtide.accounts.oidc", "identities.sql")


async def find_account(conn: Connection, issuer: str, subject: str) -> Account | None:
    row = await conn.fetchrow(Q["find_account"], issuer, subject)
    return None if row is None else Account(**{**row, "role": Role(row["role"])})


async def add_identity(conn: Connection, issuer: str, subject: str, account_id: str, now: datetime) -> bool:
    return await conn.fetchrow(Q["add_identity"], issuer, subject, account_id, now) is not None
