"""What this process's requests may cost or have just cost, of accounts and keys that have limits. No I/O.

A request counts at the most it may cost until it ends, then at what it did cost, until that is in the database and has
been read back from there. Times are seconds of a clock that only goes forward.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

ZERO: Final = Decimal(0)
_LONGEST: Final = 1.5  # how old a reading of charges may be when it is last used
_STEP: Final = 0.05

Owner = tuple[str, str]
"""An account and a key."""


@dataclass(slots=True)
class _Account:
    running: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    written: deque[tuple[float, dict[str, Decimal]]] = field(default_factory=deque)  # by when, at most

    def since(self, read_at: float) -> list[dict[str, Decimal]]:
        while self.written and self.written[0][0] < read_at - _LONGEST:
            self.written.popleft()
        return [self.running, *(amounts for at, amounts in self.written if at >= read_at)]


class Hold:
    """One request's."""

    __slots__ = ("_amount", "_holds", "_owner")

    def __init__(self, holds: Holds, owner: Owner, amount: Decimal) -> None:
        self._holds, self._owner, self._amount = holds, owner, amount

    def settle(self, cost: Decimal | None) -> None:
        """The request has ended; what it cost, None where that is not known and will not be charged."""
        amount = cost or ZERO
        self._holds.add(self._owner, amount - self._amount)
        self._amount = amount

    def written(self, now: float) -> None:
        """What it cost is in the database."""
        self._holds.move(self._owner, self._amount, now)


class Holds:
    """All of them, by account and key."""

    def __init__(self) -> None:
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)

    def hold(self, owner: Owner, amount: Decimal) -> Hold:
        """Count a request that begins."""
        self.add(owner, amount)
        return Hold(self, owner, amount)

    def of(self, owner: Owner, read_at: float) -> tuple[Decimal, Decimal]:
        """What the account's and the key's amount to, beside the charges that were read from the database then."""
        account = self._accounts.get(owner[0])
        if account is None:
            return ZERO, ZERO
        parts = account.since(read_at)
        return sum((sum(part.values(), ZERO) for part in parts), ZERO), sum(
            (part.get(owner[1], ZERO) for part in parts), ZERO
        )

    def amounts(self) -> dict[Owner, Decimal]:
        """What is not in the database yet, by owner."""
        return {(name, key): usd for name, one in self._accounts.items() for key, usd in one.running.items()}

    def add(self, owner: Owner, amount: Decimal) -> None:
        self._accounts[owner[0]].running[owner[1]] += amount

    def move(self, owner: Owner, amount: Decimal, now: float) -> None:
        self.add(owner, -amount)
        written = self._accounts[owner[0]].written
        if not written or written[-1][0] < now:
            written.append((now + _STEP, {}))
        amounts = written[-1][1]
        amounts[owner[1]] = amounts.get(owner[1], ZERO) + amount

    def forget(self, owner: Owner) -> None:
        """Nothing of the owner's runs, and that has been told."""
        account = self._accounts[owner[0]]
        if not account.running[owner[1]]:
            del account.running[owner[1]]
        if not account.running and not account.written:
            del self._accounts[owner[0]]
