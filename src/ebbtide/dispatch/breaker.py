"""A route's circuit: closed while it serves, open for a while after failures in a row, then one call may try it.

Only that call, the probe, closes it again; what calls from before the opening say no longer counts. Pure: the time, in
seconds of any clock that only goes forward, is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LONGEST: Final = 60.0

CircuitState = Literal["closed", "open", "half_open"]


class Breaker:
    """`failures` in a row are counted while it is closed; `opened` and `closed` count its moves."""

    __slots__ = ("_level", "_probing", "closed", "failures", "opened", "ready_at")

    def __init__(self) -> None:
        self.failures = 0
        self.opened = 0
        self.closed = 0
        self.ready_at: float | None = None
        self._level = 0
        self._probing = False

    @property
    def is_closed(self) -> bool:
        return self.ready_at is None

    def state(self, now: float) -> CircuitState:
        """`half_open` once it may be tried again."""
        if self.ready_at is None:
            return "closed"
        return "half_open" if self._probing or now >= self.ready_at else "open"

    def may_pass(self, now: float) -> bool:
        """Whether a call may go through now, be it as the probe."""
        return self.ready_at is None or (not self._probing and now >= self.ready_at)

    def enter(self) -> bool:
        """A call that may pass goes through; returns whether it is the probe."""
        self._probing = self.ready_at is not None
        return self._probing

    def succeed(self, *, probe: bool) -> None:
        """A call ended well, or in a way that says nothing against the route."""
        if probe:
            self.ready_at, self._probing, self._level = None, False, 0
            self.closed += 1
        if self.ready_at is None:
            self.failures = 0

    def fail(self, now: float, rules: BreakerRules, *, probe: bool) -> None:
        """A call ended in a way that counts against the route."""
        if probe:
            self._open(now, rules)
        elif self.ready_at is None:
            self.failures += 1
            if rules.failures and self.failures >= rules.failures:
                self._open(now, rules)

    def abandon(self, *, probe: bool) -> None:
        """A call was broken off by its caller and says nothing; another may probe."""
        if probe:
            self._probing = False

    def _open(self, now: float, rules: BreakerRules) -> None:
        self.opened += self.ready_at is None
        self.ready_at = now + min(rules.seconds * 2**self._level, rules.longest)
        self._level = min(self._level + 1, 30)
        self._probing = False


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Failures in a row that open a circuit (0: it never opens), and for how many seconds: doubled, up to `longest`."""

    failures: int = 5
    seconds: float = 5.0
    longest: float = LONGEST
