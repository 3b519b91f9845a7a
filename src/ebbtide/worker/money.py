"""Whether there is money for more: limits that charges have reached pause work, running requests only delay it.

Kept under the account's row, so that no two workers spend the same dollar.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final

from ebbtide.accounts.quotas import WAIT_FOR_RUNNING, Limits, paused_until, read_limits
from ebbtide.batches import standing_store as store
from ebbtide.batches.claim_store import Candidate
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Connection
from ebbtide.worker.lanes import Work

ZERO: Final = Decimal(0)


class Holdings:
    """What the requests this worker holds may cost, by account and key."""

    def __init__(self) -> None:
        self._held: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
        self._told: set[tuple[str, str]] = set()
        self._life = 0

    def add(self, works: Iterable[Work]) -> None:
        for work in works:
            self._held[work.batch.account_id, work.batch.key_id] += work.may_cost

    def remove(self, works: Iterable[Work]) -> None:
        for work in works:
            self._held[work.batch.account_id, work.batch.key_id] -= work.may_cost

    def clear(self) -> None:
        self._life += 1
        self._held.clear()
        self._told.clear()

    def of_account(self, account_id: str) -> Decimal:
        return sum((usd for (account, _), usd in self._held.items() if account == account_id), start=ZERO)

    def of(self, account_id: str, key_id: str) -> Decimal:
        return self._held.get((account_id, key_id), ZERO)

    @contextmanager
    def without(self, works: Sequence[Work]) -> Iterator[None]:
        """These are held no longer, unless what is done in here fails."""
        life = self._life
        self.remove(works)
        try:
            yield
        except BaseException:
            if life == self._life:
                self.add(works)
            raise

    async def tell(
        self, conn: Connection, worker_no: int, locked: Collection[str], owners: Collection[tuple[str, str]] = ()
    ) -> None:
        """Write what is held of `owners`, and of those of whom something was written before.

        Only of the accounts whose rows are `locked`: a late word of another's would bring back what has ended since.
        """
        self._told |= set(owners)
        held = [(key, account, self.of(account, key)) for account, key in sorted(self._told) if account in locked]
        if held:
            await store.set_reservations(conn, worker_no, held)


@dataclass(slots=True)
class Money:
    """What is left in one claim round, in USD, for accounts and keys that have a limit."""

    accounts: dict[str, Decimal] = field(default_factory=dict)
    keys: dict[str, Decimal] = field(default_factory=dict)
    limited: set[tuple[str, str]] = field(default_factory=set)

    def take(self, account_id: str, key_id: str, amount: Decimal) -> bool:
        """Whether one more request may start: something is left before it is counted."""
        left = [purse[name] for purse, name in ((self.accounts, account_id), (self.keys, key_id)) if name in purse]
        if any(amount_left <= 0 for amount_left in left):
            return False
        if account_id in self.accounts:
            self.accounts[account_id] -= amount
        if key_id in self.keys:
            self.keys[key_id] -= amount
        return True


@dataclass(frozen=True, slots=True)
class Moment:
    """When it is, and the settings in force."""

    now: datetime
    settings: Settings


async def look_for_money(
    conn: Connection, candidates: Sequence[Candidate], holdings: Holdings, worker_no: int, moment: Moment
) -> tuple[list[Candidate], Money]:
    """The candidates whose owner may spend, and what is left; the others are parked by one row each."""
    owners = {(c.account_id, c.key_id) for c in candidates if c.has_limits or c.is_parked}
    if not owners:
        return list(candidates), Money()
    now = moment.now
    limits = await read_limits(conn, sorted(key for _, key in owners), now.date(), moment.settings)
    elsewhere = await store.reserved(conn, sorted({account for account, _ in owners}), worker_no)
    money = Money()
    paused = set()
    for account_id, key_id in sorted(owners):
        limit = limits.get(key_id)
        reserved = _Reserved(elsewhere, holdings, account_id)
        if limit is not None and not await _may_spend(conn, limit, reserved, money, now):
            paused.add((account_id, key_id))
    free = owners - paused
    await store.unpark_keys(conn, sorted(key for _, key in free))
    await store.unpark_accounts(conn, sorted({account for account, _ in free}))
    return [c for c in candidates if (c.account_id, c.key_id) not in paused], money


@dataclass(frozen=True, slots=True)
class _Reserved:
    """What running requests of an account may cost, everywhere."""

    elsewhere: dict[tuple[str, str], Decimal]
    holdings: Holdings
    account_id: str

    def by_key(self, key_id: str) -> Decimal:
        return self.elsewhere.get((self.account_id, key_id), ZERO) + self.holdings.of(self.account_id, key_id)

    def by_account(self) -> Decimal:
        others = sum((usd for (account, _), usd in self.elsewhere.items() if account == self.account_id), start=ZERO)
        return others + self.holdings.of_account(self.account_id)


async def _may_spend(conn: Connection, limit: Limits, reserved: _Reserved, money: Money, now: datetime) -> bool:
    reason = limit.used_up()
    if reason == "key_budget":
        await store.park_key(conn, limit.key_id, reason, paused_until(now))
        return False
    if reason is not None:
        await store.park_account(conn, limit.account_id, reason, paused_until(now))
        return False
    account_left, key_left = limit.account_left(), limit.key_left()
    if account_left is not None:
        money.accounts[limit.account_id] = account_left - reserved.by_account()
    if key_left is not None:
        money.keys[limit.key_id] = key_left - reserved.by_key(limit.key_id)
    money.limited.add((limit.account_id, limit.key_id))
    if money.accounts.get(limit.account_id, 1) > 0 and money.keys.get(limit.key_id, 1) > 0:
        return True
    # Running requests alone stand in the way: nothing pauses, it is looked at again when some have ended.
    await store.park_key(conn, limit.key_id, "reserved", now + WAIT_FOR_RUNNING)
    return False
