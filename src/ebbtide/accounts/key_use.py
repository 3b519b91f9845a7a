"""When each key was last used: noted in memory by requests, written in bulk by a background duty.

A key's row is written at most once a minute, however many requests and processes use the key.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts import store
from ebbtide.duties import Duty
from ebbtide.storage.pool import Database

EVERY: Final = timedelta(minutes=1)
_WRITE_SECONDS: Final = 20.0


class KeyUse:
    """The uses that are not written yet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[str, datetime] = {}  # the last use passed on, by key
        self._unwritten: dict[str, datetime] = {}

    def note(self, key_id: str, now: datetime) -> None:
        """A request came in with this key."""
        noted = self._noted.get(key_id)
        if noted is None or now - noted >= EVERY:
            self._noted[key_id] = self._unwritten[key_id] = now

    def duty(self) -> Duty:
        """Writing now and then, and at the end."""
        return Duty("key use", self.run_once, _WRITE_SECONDS, steady=True, at_end=self.run_once)

    async def run_once(self, now: datetime) -> int:
        """Write what was noted since the last time; returns how many keys. Raises Unavailable, and then keeps them."""
        uses = dict(self._unwritten)
        if uses:
            async with self._database.transaction() as conn:
                await store.record_key_use(conn, uses, EVERY)
        self._unwritten = {key: at for key, at in self._unwritten.items() if uses.get(key) != at}
        self._noted = {key: at for key, at in self._noted.items() if now - at < EVERY}
        return len(uses)
