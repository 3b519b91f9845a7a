"""API keys: `ebb-` and 43 characters that carry 256 random bits. Only the SHA-256 of a key is stored.

The secret exists once, in the answer of `issue_key`; a key is withdrawn by revoking it and never comes back.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import datetime
from typing import Final

from ebbtide import ids
from ebbtide.accounts import store
from ebbtide.accounts.store import ApiKey, NewKey
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.storage.pool import Connection, Database

KEY_PREFIX: Final = "ebb-"
_SHOWN = len(KEY_PREFIX) + 6
_FORM = re.compile(r"ebb-[A-Za-z0-9_-]{43}")
_MAX_NAME = 200


async def issue_key(
    conn: Connection, account_id: str, *, name: str, expires_at: datetime | None, now: datetime
) -> tuple[ApiKey, str]:
    """A new key of the account and its secret, which nobody can read again, in a transaction of the caller's.

    Raises NotFound for an unknown account, InvalidRequest for an unusable name.
    """
    if len(name) > _MAX_NAME or not (name.isprintable() or not name):
        raise InvalidRequest(f"A key's name has at most {_MAX_NAME} printable characters", param="name")
    secret = KEY_PREFIX + secrets.token_urlsafe(32)
    row = NewKey(ids.key_id(), account_id, name, secret[:_SHOWN], digest(secret), now, expires_at)
    key = await store.add_key(conn, row)
    if key is None:
        raise NotFound(f"There is no account {account_id!r}")
    return key, secret


async def list_keys(database: Database, account_id: str | None = None) -> list[ApiKey]:
    """The account's keys, or those of every living account; oldest first, revoked and expired included."""
    async with database.connection() as conn:
        return await store.list_keys(conn, account_id)


async def find_key(database: Database, key_id: str) -> ApiKey:
    """A key by its id, revoked or not. Raises NotFound."""
    async with database.connection() as conn:
        key = await store.get_key(conn, key_id)
    if key is None:
        raise NotFound(f"There is no key {key_id!r}")
    return key


def has_key_form(secret: str) -> bool:
    """Whether this could be a key at all."""
    return _FORM.fullmatch(secret) is not None


def digest(secret: str) -> bytes:
    """What is stored of a key. One round is enough: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()
