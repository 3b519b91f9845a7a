"""What a worker holds in memory: slots go to what waits, as long as the limits are known, and nothing lies stranded."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from ebbtide.accounts.roles import Role
from ebbtide.batches.claim_store import ClaimableBatch, ClaimedItem
from ebbtide.worker.lanes import LIMITS_HOLD, Lanes, Work

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def work(n: int, model: str = "m", account: str = "a") -> Work:
    item = ClaimedItem(1, n, 1, 0, f"r{n}", 0, 0, 2, None)
    return Work(item, ClaimableBatch(1, "batch_1", account, "key", "chat", "file", NOW), model, Role.INTERNAL)


class Started(list[Work]):
    """The works that were started, in order."""

    @property
    def ids(self) -> list[int]:
        return [one.item.id for one in self]


@pytest.fixture
def started() -> Started:
    return Started()


@pytest.fixture
def lanes(started: Started) -> Lanes:
    """Three works wait, with two slots."""
    lanes = Lanes(started.append)
    lanes.add([work(n) for n in range(3)])
    lanes.lane("m", "a").limit = 2
    return lanes


def test_a_freed_slot_goes_to_the_next_at_once(lanes: Lanes, started: Started) -> None:
    lanes.limits_set("m")
    lanes.start_waiting("m", "a")
    successor = lanes.finished(started[0])
    assert successor is not None
    assert (successor.item.id, started.ids) == (2, [0, 1])
    assert lanes.lane("m", "a").in_flight == 2
    assert lanes.finished(started[1]) is None


def test_a_freed_slot_waits_for_a_claim_round_where_told(lanes: Lanes, started: Started) -> None:
    lanes.limits_set("m")
    lanes.start_waiting("m", "a")
    lanes.freed(started[0])
    assert started.ids == [0, 1]
    lanes.start_waiting("m", "a")
    assert started.ids == [0, 1, 2]


def test_limits_hold_for_a_few_seconds(lanes: Lanes, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes.limits_set("m")
    lanes.start_waiting("m", "a")
    later = time.monotonic() + LIMITS_HOLD + 0.01
    monkeypatch.setattr("ebbtide.worker.lanes.time.monotonic", lambda: later)
    assert lanes.finished(started[0]) is None
    assert started.ids == [0, 1]
    lanes.limits_set("m")
    lanes.start_waiting("m", "a")
    assert started.ids == [0, 1, 2]


def test_limits_that_became_unknown_start_nothing(lanes: Lanes, started: Started) -> None:
    lanes.limits_set("m")
    lanes.limits_unknown()
    lanes.start_waiting("m", "a")
    assert started == []


def test_only_what_no_lane_of_its_model_can_start_is_stranded(lanes: Lanes, started: Started) -> None:
    lanes.add([work(10, account="b"), work(20, model="other")])
    assert [one.item.id for one in lanes.take_stranded()] == [20]
    lanes.lane("m", "a").limit = 0
    assert sorted(one.item.id for one in lanes.take_stranded()) == [0, 1, 2, 10]
    assert lanes.take_stranded() == []
    assert started == []
