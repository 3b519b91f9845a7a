"""What a worker holds in memory: for each model and account a lane with its slots, what runs, and what waits.

A lane never has more in flight than its limit; a freed slot goes to the lane's next waiting item at once. A limit holds
for a few seconds from the claim round that set it: while no round succeeds, nobody knows how much room there is.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import msgspec

from ebbtide.accounts.roles import Role
from ebbtide.batches.claim_store import ClaimableBatch, ClaimedItem

LIMITS_HOLD: Final = 3.0  # seconds


class Work(msgspec.Struct, frozen=True, gc=False):
    """A claimed item and its batch; the role its owner had when it was claimed, and what it may cost in USD."""

    item: ClaimedItem
    batch: ClaimableBatch
    model: str
    role: Role
    may_cost: Decimal = Decimal(0)


@dataclass(slots=True)
class Lane:
    """One account's work on one model, at this worker."""

    limit: int = 0
    in_flight: int = 0
    waiting: deque[Work] = field(default_factory=deque)

    @property
    def is_empty(self) -> bool:
        return self.limit == 0 and self.in_flight == 0 and not self.waiting


class Lanes:
    """All lanes of a worker. `start` is called for each item whose turn has come and that nobody else starts."""

    def __init__(self, start: Callable[[Work], None]) -> None:
        self._start = start
        self.generation = 0  # goes up each time everything is forgotten
        self._lanes: dict[str, dict[str, Lane]] = {}
        self._set_at: dict[str, float] = {}

    def of_model(self, model: str) -> dict[str, Lane]:
        """The model's lanes by account."""
        return self._lanes.get(model, {})

    def lane(self, model: str, account_id: str) -> Lane:
        lanes = self._lanes.setdefault(model, {})
        lane = lanes.get(account_id)
        if lane is None:
            lane = lanes[account_id] = Lane()
        return lane

    def models(self) -> list[str]:
        return list(self._lanes)

    def add(self, works: list[Work]) -> None:
        for work in works:
            self.lane(work.model, work.batch.account_id).waiting.append(work)

    def limits_set(self, model: str) -> None:
        """A claim round has just set the limits of the model's lanes."""
        self._set_at[model] = time.monotonic()

    def limits_unknown(self) -> None:
        """No lane's limit holds any more, until a claim round sets it."""
        self._set_at = dict.fromkeys(self._lanes, float("-inf"))

    def start_waiting(self, model: str, account_id: str) -> None:
        """Start waiting items while the lane has a free slot."""
        lane = self.lane(model, account_id)
        while work := self._take_next(model, lane):
            self._start(work)

    def finished(self, work: Work) -> Work | None:
        """An item of the lane came back; returns the one that runs in its slot from now on, which the caller starts."""
        lane = self.lane(work.model, work.batch.account_id)
        lane.in_flight -= 1
        return self._take_next(work.model, lane)

    def freed(self, work: Work) -> None:
        """An item of the lane came back, and its slot waits for a claim round."""
        self.lane(work.model, work.batch.account_id).in_flight -= 1

    def take_stranded(self) -> list[Work]:
        """Take out the items that wait for models on which no lane has a slot any more."""
        stranded = {model for model, lanes in self._lanes.items() if not any(lane.limit for lane in lanes.values())}
        return self.take_waiting(lambda work: work.model in stranded) if stranded else []

    def take_waiting(self, unwanted: Callable[[Work], bool]) -> list[Work]:
        """Take out the items that wait and are `unwanted`."""
        taken = []
        for lane in self._all():
            taken += [work for work in lane.waiting if unwanted(work)]
            lane.waiting = deque(work for work in lane.waiting if not unwanted(work))
        return taken

    def waiting(self) -> list[Work]:
        """The items that wait."""
        return [work for lane in self._all() for work in lane.waiting]

    def forget_empty(self, model: str) -> None:
        """Drop the model's lanes that hold nothing."""
        kept = {account: lane for account, lane in self.of_model(model).items() if not lane.is_empty}
        if kept:
            self._lanes[model] = kept
        else:
            self._lanes.pop(model, None)
            self._set_at.pop(model, None)

    def clear(self) -> None:
        """Forget everything."""
        self.generation += 1
        self._lanes.clear()

    def _take_next(self, model: str, lane: Lane) -> Work | None:
        """The next waiting item, on its way from here on; None while the lane has no free slot."""
        if time.monotonic() - self._set_at.get(model, float("inf")) > LIMITS_HOLD:
            return None
        if not lane.waiting or lane.in_flight >= lane.limit:
            return None
        lane.in_flight += 1
        return lane.waiting.popleft()

    def _all(self) -> Iterator[Lane]:
        return (lane for lanes in self._lanes.values() for lane in lanes.values())
