"""When a model rests: after failures in a row, or when its deployment says that it waits for hardware. Pure.

Five failures in a row rest it 30 s, doubling up to 15 min; after each rest one request goes as a probe. A success
clears everything. While it rests, failures of requests that were under way already count for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

FAILURES_IN_A_ROW: Final = 5
FIRST_REST: Final = 30.0
LONGEST_REST: Final = 900.0

PAUSED: Final = "model_paused"
QUEUED: Final = "model_queued"


class Sign(Enum):
    """What one outcome says about its model's health."""

    WELL = "well"
    ILL = "ill"
    QUEUED = "queued"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ModelState:
    """How a model fares. `rest_level` counts rests since it was last well; `waiting_since` the first answer that its
    deployment is queued; `alerted_at` when that was reported.
    """

    failures: int = 0
    rest_level: int = 0
    rest_until: datetime | None = None
    rest_reason: str | None = None
    waiting_since: datetime | None = None
    alerted_at: datetime | None = None

    def rests(self, now: datetime) -> bool:
        return self.rest_until is not None and self.rest_until > now

    def probes(self, now: datetime) -> bool:
        """Whether a rest is over and nothing has succeeded since: one request may go."""
        return self.rest_until is not None and self.rest_until <= now

    @property
    def is_well(self) -> bool:
        return self.failures == 0 and self.rest_until is None and self.waiting_since is None


def after_signs(state: ModelState, signs: Iterable[tuple[Sign, float]], now: datetime) -> ModelState:
    """The state after outcomes in the order in which they came; each with the seconds a queued deployment asked for."""
    for sign, seconds in signs:
        state = _after(state, sign, seconds, now)
    return state


def _after(state: ModelState, sign: Sign, seconds: float, now: datetime) -> ModelState:
    match sign:
        case Sign.WELL:
            return ModelState(alerted_at=state.alerted_at)
        case Sign.QUEUED:
            until = now + timedelta(seconds=min(seconds, LONGEST_REST))
            return replace(
                state,
                rest_until=max(until, state.rest_until or until),
                rest_reason=QUEUED,
                waiting_since=state.waiting_since or now,
            )
        case Sign.ILL if not state.rests(now):
            return _after_failure(state, now)
        case _:
            return state


def _after_failure(state: ModelState, now: datetime) -> ModelState:
    failures = state.failures + 1
    if failures < FAILURES_IN_A_ROW and not state.rest_level:
        return replace(state, failures=failures)
    rest = min(FIRST_REST * 2.0**state.rest_level, LONGEST_REST)
    return replace(
        state,
        failures=0,
        rest_level=state.rest_level + 1,
        rest_until=now + timedelta(seconds=rest),
        rest_reason=PAUSED,
    )
