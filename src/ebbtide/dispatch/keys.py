"""A route's API keys: taken in turn, and left alone for a while after the upstream refused one. Pure.

A route's only key is never rested: there is nothing to use in its place, and the circuit and the limit protect the
route. Times are seconds of a clock that only goes forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

AFTER_REFUSED: Final = 300.0
_AFTER_LIMITED: Final = 2.0
_LONGEST: Final = 120.0


class KeyPool:
    """`rests` counts how often a key was left alone."""

    __slots__ = ("_keys", "_level", "_next", "_until", "rests")

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._until = [0.0] * len(self._keys)
        self._level = [0] * len(self._keys)
        self._next = 0
        self.rests = 0

    def __len__(self) -> int:
        return len(self._keys)

    def take(self, now: float) -> str | None:
        """The next key that does not rest; None when all do, or when there is none."""
        count = len(self._keys)
        if count == 1:
            return self._keys[0]
        for step in range(count):
            at = (self._next + step) % count
            if self._until[at] <= now:
                self._next = at + 1
                return self._keys[at]
        return None

    def ready_in(self, now: float) -> float:
        """Seconds until a key may be used; 0 when one may now, or when the route needs none."""
        if len(self._keys) < 2:
            return 0.0
        return max(0.0, min(self._until) - now)

    def resting(self, now: float) -> int:
        """How many rest."""
        return sum(until > now for until in self._until)

    def limited(self, key: str | None, now: float, retry_after: float | None) -> None:
        """The upstream took too many requests for it (429): for as long as it asked, else longer each time."""
        if key is not None and len(self._keys) > 1:
            at = self._keys.index(key)
            self._rest(at, now + (retry_after or min(_AFTER_LIMITED * 2 ** self._level[at], _LONGEST)))

    def refused(self, key: str | None, now: float) -> None:
        """The upstream does not accept it (401)."""
        if key is not None and len(self._keys) > 1:
            self._rest(self._keys.index(key), now + AFTER_REFUSED)

    def served(self, key: str | None) -> None:
        """It served a request."""
        if len(self._keys) > 1 and key is not None:
            self._level[self._keys.index(key)] = 0

    def _rest(self, at: int, until: float) -> None:
        self._until[at] = max(self._until[at], until)
        self._level[at] = min(self._level[at] + 1, 10)
        self.rests += 1
