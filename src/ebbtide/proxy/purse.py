"""What accounts and keys may still spend on interactive requests, and how many of those may run at once.

Read from the database once a second for each key in use, never for each request; what this process holds beside that is
counted exactly, and told to the other processes twice a second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from ebbtide.accounts.quotas import LIMITS_CHANNEL, Limits, read_cap, read_limits
from ebbtide.accounts.store import Principal
from ebbtide.clock import Clock
from ebbtide.duties import Duty
from ebbtide.errors import LimitReached
from ebbtide.proxy.holds import ZERO, Hold, Holds, Owner
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.notify import Listener
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.proxy", "purse.sql")
LIFETIME: Final = 1.0
EVERY: Final = 0.4  # half a second with the jitter of duties
_AGAIN: Final = 2.0
_RETRY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a key may, as it was read: `cap` requests at once (0: any number), and its limits of money, if any.

    `others` is what requests may cost elsewhere, by key.
    """

    read_at: float
    cap: int
    limits: Limits | None
    others: dict[str, Decimal]


class Purse:
    """One process's knowledge."""

    def __init__(self, database: Database, settings: SettingsSource, clock: Clock, process: str) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._process = process
        self._known: dict[str, Allowance] = {}
        self._asking: dict[str, asyncio.Task[Allowance]] = {}
        self._told: dict[Owner, tuple[Decimal, float]] = {}
        self.holds = Holds()

    async def look(self, principal: Principal) -> Allowance:
        """What the key may, no more than a second old. Raises Unavailable."""
        known = self._known.get(principal.key_id)
        if known is not None and _now() - known.read_at < LIFETIME:
            return known
        task = self._asking.get(principal.key_id)
        if task is None:
            task = self._asking[principal.key_id] = asyncio.create_task(self._read(principal))
            task.add_done_callback(lambda done: self._answered(principal.key_id, done))
        return await asyncio.shield(task)  # one caller who goes away takes nothing from the others

    def hold(self, principal: Principal, allowance: Allowance, amount: Decimal) -> Hold | None:
        """Count a request that may cost so much; None where nothing limits it.

        Raises LimitReached unless something is left beside all that runs.
        """
        limits = allowance.limits
        if limits is None:
            return None
        owner = (principal.account_id, principal.key_id)
        account, key = self.holds.of(owner, allowance.read_at)
        others = allowance.others
        if others:
            account, key = account + sum(others.values(), ZERO), key + others.get(owner[1], ZERO)
        reason = limits.used_up(account, key)
        if reason is not None:
            raise LimitReached(f"{_WORDS[reason]} is held by requests that run", code=reason, retry_after=_RETRY)
        return self.holds.hold(owner, amount)

    def forget(self) -> None:
        """Read again before the next request: something has changed."""
        self._known.clear()
        self._asking.clear()

    def duty(self, listener: Listener) -> Duty:
        """Telling twice a second what requests may cost, and taking everything back at the end."""
        listener.subscribe(LIMITS_CHANNEL, self.forget)
        return Duty("interactive reservations", self.tell, EVERY, steady=True, at_end=self.end)

    async def tell(self, now: datetime) -> int:
        """Write what changed, and again what is not zero; returns how many. Raises Unavailable."""
        moment = _now()
        self._known = {key: known for key, known in self._known.items() if moment - known.read_at < LIFETIME}
        amounts = self.holds.amounts()
        due = {owner: usd for owner, usd in amounts.items() if self._is_due(owner, usd, moment)}
        if due:
            keys, accounts = [key for _, key in due], [account for account, _ in due]
            async with self._database.connection() as conn:
                await conn.execute(_Q["reserve"], self._process, keys, accounts, list(due.values()))
            self._told |= {owner: (usd, moment) for owner, usd in due.items()}
        for owner in [owner for owner, (usd, _) in self._told.items() if not usd]:
            del self._told[owner]
            self.holds.forget(owner)
        return len(due)

    async def end(self, now: datetime) -> None:
        """Take everything back. Raises Unavailable."""
        async with self._database.connection() as conn:
            await conn.execute(_Q["end_reservations"], self._process)

    def _is_due(self, owner: Owner, usd: Decimal, now: float) -> bool:
        told, at = self._told.get(owner, (ZERO, float("-inf")))
        return usd != told or (usd > 0 and now - at >= _AGAIN)

    async def _read(self, principal: Principal) -> Allowance:
        read_at, settings = _now(), self._settings.current
        async with self._database.connection() as conn:
            cap = await read_cap(conn, principal.key_id, settings)
            found = await read_limits(conn, [principal.key_id], self._clock.now().date(), settings)
            limits = found.get(principal.key_id)
            others: dict[str, Decimal] = {}
            if limits is not None:
                rows = await conn.fetch(_Q["reserved_elsewhere"], principal.account_id, self._process)
                others = {row["key_id"]: row["cost_usd"] for row in rows}
        return Allowance(read_at, cap, limits, others)

    def _answered(self, key_id: str, task: asyncio.Task[Allowance]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if self._asking.get(key_id) is not task:
            return
        del self._asking[key_id]
        if not failed:
            self._known[key_id] = task.result()


_WORDS: Final = {
    "daily_quota": "What is left of your daily quota",
    "monthly_quota": "What is left of your monthly quota",
    "key_budget": "What is left of the API key's budget",
}


def _now() -> float:
    return asyncio.get_running_loop().time()
