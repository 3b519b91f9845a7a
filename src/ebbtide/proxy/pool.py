"""One account's slots in this process: how many it holds, how many are in use, and who waits for one. No I/O.

A slot that comes free goes to whoever has waited longest. What is held is good until the lease ends, on a clock that
only goes forward.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

_CHUNK: Final = 8  # one slot more for each so many that are free, and no more than that


@dataclass(slots=True)
class Pool:
    """`granted` may be used; `elsewhere` is what other processes were last known to hold. `peak` is the most in use
    since it was last looked at.
    """

    account_id: str
    cap: int = 0
    granted: int = 0
    in_use: int = 0
    elsewhere: int = 0
    peak: int = 0
    looked_at: float = 0.0
    leased_at: float = float("-inf")
    valid_until: float = float("-inf")
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    asker: asyncio.Task[None] | None = None

    @property
    def idle(self) -> int:
        return max(0, self.granted - self.in_use)

    @property
    def is_done_with(self) -> bool:
        """Whether nothing would be lost with it."""
        return not (self.granted or self.in_use or self.waiting or self.lock.locked())

    @property
    def remaining(self) -> int:
        """How many more may run at once, as far as this process knows."""
        return max(0, self.cap - self.elsewhere - self.in_use)

    def take(self, now: float) -> bool:
        """One of the slots held here, if any is free and nobody waits."""
        if self.waiting or now >= self.valid_until or self.in_use >= min(self.granted, self.cap):
            return False
        self._use()
        return True

    def free(self, now: float) -> None:
        """A request has ended."""
        self.in_use -= 1
        self.hand_out(now)

    def hand_out(self, now: float) -> None:
        """Give what is free to those who wait."""
        while self.waiting and now < self.valid_until and self.in_use < min(self.granted, self.cap):
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._use()

    def _use(self) -> None:
        self.in_use += 1
        self.peak = max(self.peak, self.in_use)

    def live_waiters(self) -> list[asyncio.Future[None]]:
        self.waiting = deque(waiter for waiter in self.waiting if not waiter.done())
        return list(self.waiting)

    def target(self, elsewhere: int) -> int:
        """How many slots to hold while others hold `elsewhere`: for those who wait, and a few more if many are free."""
        self.elsewhere = elsewhere
        most = max(0, self.cap - elsewhere)
        wanted = self.in_use + len(self.live_waiters())
        spare = min(max(0, most - wanted) // _CHUNK, _CHUNK)
        return min(most, max(self.granted, wanted + spare))

    def keep(self, now: float, *, wanted: bool, every: float) -> int:
        """How many slots to go on holding: those in use, and for a while as many as lately were."""
        if wanted:
            return self.in_use
        if now - self.looked_at < every:
            return self.granted
        kept = min(self.granted, max(self.peak, self.in_use))
        self.peak, self.looked_at = self.in_use, now
        return kept

    def shrink(self, elsewhere: int) -> None:
        """Others hold so many: what is over the cap is not used again."""
        self.elsewhere = elsewhere
        self.granted = min(self.granted, max(0, self.cap - elsewhere))
