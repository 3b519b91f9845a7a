"""Whether an interactive request may run now: its account's concurrency, its quotas, its key's budget.

Charges that have reached a limit refuse before anything else; a request that is let in holds a slot and the money that
it may cost until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ebbtide.accounts.store import Principal
from ebbtide.catalog.prices import may_cost
from ebbtide.clock import Clock
from ebbtide.proxy.forward import Ask
from ebbtide.proxy.holds import Hold
from ebbtide.proxy.pool import Pool
from ebbtide.proxy.purse import Allowance, Purse
from ebbtide.proxy.slots import Slots


@dataclass(slots=True)
class Admitted:
    """What a running request holds. `cap` and `remaining` are its account's concurrency; a cap of 0 is none."""

    cap: int
    pool: Pool | None
    hold: Hold | None

    @property
    def remaining(self) -> int:
        return self.pool.remaining if self.pool is not None else 0


class Admission:
    """Lets requests in, and out again."""

    def __init__(self, purse: Purse, slots: Slots, clock: Clock) -> None:
        self._purse = purse
        self._slots = slots
        self._clock = clock

    async def enter(self, principal: Principal, ask: Ask) -> Admitted:
        """Raises LimitReached, Unavailable."""
        allowance = await self._purse.look(principal)
        if allowance.limits is not None:
            allowance.limits.check(self._clock.now())
        if not allowance.cap:
            return Admitted(0, None, self._hold(principal, allowance, ask))
        pool = await self._slots.enter(principal.account_id, allowance.cap)
        try:
            return Admitted(allowance.cap, pool, self._hold(principal, allowance, ask))
        except BaseException:
            self._slots.leave(pool)
            raise

    def leave(self, admitted: Admitted, cost: Decimal | None) -> None:
        """The request has ended, and what it cost is known (None: never will be)."""
        if admitted.pool is not None:
            self._slots.leave(admitted.pool)
        if admitted.hold is not None:
            admitted.hold.settle(cost)

    def _hold(self, principal: Principal, allowance: Allowance, ask: Ask) -> Hold | None:
        if allowance.limits is None:
            return None
        return self._purse.hold(principal, allowance, may_cost(ask.model, len(ask.body.raw), ask.body.max_tokens))
