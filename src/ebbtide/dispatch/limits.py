"""How many calls a route runs at once: what the configuration allows, and less after the upstream said too many. Pure.

Additive increase, multiplicative decrease (Chiu and Jain, 1989): a 429 halves what was in flight, once for all calls
that ran then; as many good answers as the limit raise it by one.
"""

from __future__ import annotations

from typing import Final

_UNBOUNDED: Final = 1024


class Limiter:
    """`limit` is None until the first 429 where nothing is configured; `most` is the configured one."""

    __slots__ = ("_cut_at", "_good", "in_flight", "limit", "most")

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.limit = most
        self.in_flight = 0
        self._good = 0
        self._cut_at = float("-inf")

    @property
    def has_room(self) -> bool:
        return self.limit is None or self.in_flight < self.limit

    def served(self) -> None:
        """A call was answered."""
        if self.limit is None or self.limit == self.most:
            return
        self._good += 1
        if self._good >= self.limit:
            self._good = 0
            self.limit += 1
            if self.most is None and self.limit > _UNBOUNDED:
                self.limit = None

    def limited(self, began_at: float, now: float) -> None:
        """A call that began then was answered with 429."""
        if began_at < self._cut_at:
            return  # it ran when the limit was cut for its like
        self._cut_at = now
        self._good = 0
        self.limit = max(1, min(self.limit or self.in_flight, self.in_flight) // 2)

    def allow(self, most: int | None) -> None:
        """The configuration changed."""
        if most != self.most:
            self.most = self.limit = most
