"""Looks up an API key's principal; answers are cached for at most one second.

Whatever is wrong with a key (unknown, revoked, expired, account suspended or deleted), the refusal reads the same.
A refused key is remembered too, and equal keys asked for at once share one query, so that hammering costs no database.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts import store
from ebbtide.accounts.key_use import KeyUse
from ebbtide.accounts.keys import digest, has_key_form
from ebbtide.accounts.store import Found, Principal
from ebbtide.clock import Clock
from ebbtide.errors import Unauthenticated
from ebbtide.storage.pool import Database

LIFETIME: Final = timedelta(seconds=1)
_CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class _Entry:
    found: Found | None
    asked_at: datetime

    def holds(self, now: datetime) -> bool:
        # A clock that was set back must not make an entry live longer.
        return timedelta(0) <= now - self.asked_at < LIFETIME


class Authenticator:
    """Tells whose key a secret is."""

    def __init__(self, database: Database, clock: Clock, *, capacity: int = _CAPACITY) -> None:
        self._database = database
        self._clock = clock
        # Apart, so that a flood of unknown keys cannot push out the known ones.
        self._known = _Memory(capacity)
        self._refused = _Memory(capacity)
        self._asking: dict[bytes, asyncio.Task[Found | None]] = {}
        self.uses = KeyUse(database)

    async def principal(self, secret: str) -> Principal:
        """Whose key this is. Raises Unauthenticated (one wording for every reason) or Unavailable."""
        if not has_key_form(secret):
            raise _refusal()
        found = await self._find(digest(secret))
        now = self._clock.now()
        if found is None or (found.expires_at is not None and found.expires_at <= now):
            raise _refusal()
        self.uses.note(found.principal.key_id, now)
        return found.principal

    def forget(self) -> None:
        """Drop everything that is remembered; what is being asked at the moment is not remembered either."""
        self._known.clear()
        self._refused.clear()
        self._asking.clear()

    async def _find(self, key_hash: bytes) -> Found | None:
        now = self._clock.now()
        entry = self._known.get(key_hash, now) or self._refused.get(key_hash, now)
        if entry is not None:
            return entry.found
        task = self._asking.get(key_hash)
        if task is None:
            task = self._asking[key_hash] = asyncio.create_task(self._ask(key_hash, now))
            task.add_done_callback(lambda done: self._answered(key_hash, now, done))
        # Shielded: one caller who goes away takes nothing from the others who wait for the same answer.
        return await asyncio.shield(task)

    async def _ask(self, key_hash: bytes, now: datetime) -> Found | None:
        async with self._database.connection() as conn:
            return await store.find_key(conn, key_hash, now)

    def _answered(self, key_hash: bytes, asked_at: datetime, task: asyncio.Task[Found | None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._asking.get(key_hash) is not task:
            return
        del self._asking[key_hash]
        if failed:
            return
        found = task.result()
        memory = self._refused if found is None else self._known
        memory.put(key_hash, _Entry(found, asked_at))


class _Memory:
    """The most recently used entries, `capacity` at most."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def get(self, key_hash: bytes, now: datetime) -> _Entry | None:
        entry = self._entries.get(key_hash)
        if entry is None:
            return None
        if not entry.holds(now):
            del self._entries[key_hash]
            return None
        self._entries.move_to_end(key_hash)
        return entry

    def put(self, key_hash: bytes, entry: _Entry) -> None:
        self._entries[key_hash] = entry
        self._entries.move_to_end(key_hash)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()


def _refusal() -> Unauthenticated:
    return Unauthenticated("The API key is missing or not valid")
