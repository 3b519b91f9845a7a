"""Who gets slots and from which batches: bounds that hold for any input, and the shares that make it fair."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.accounts.roles import Role
from ebbtide.batches.claim_store import Candidate
from ebbtide.batches.workers_store import HeldSlots
from ebbtide.worker.fairness import Share, allot, candidates_for_probe, choose_batches, grant
from ebbtide.worker.room import prefetch, room_here

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def share(account: str, **more: float) -> Share:
    values = {"in_flight": 0, "waiting": 0, "queued": 0, "cap": 1_000, "most": 1_000} | more
    service = float(values.pop("service", 0.0))
    return Share(account_id=account, service=service, **{name: int(value) for name, value in values.items()})


def candidate(number: int, queued: int, hours: float | None = None) -> Candidate:
    expires = None if hours is None else NOON + timedelta(hours=hours)
    return Candidate(number, "a", "key", expires, queued, Role.INTERNAL, True, False, False)


SHARES = st.lists(
    st.builds(
        share,
        st.text("abcdefgh", min_size=1, max_size=2),
        in_flight=st.integers(0, 30),
        waiting=st.integers(0, 10),
        queued=st.integers(0, 100),
        service=st.floats(0, 1e6),
        most=st.integers(0, 60),
    ),
    max_size=8,
    unique_by=lambda one: one.account_id,
)


@given(SHARES, st.integers(0, 100), st.floats(0.01, 60))
def test_allotments_never_exceed_slots_nor_demand_and_waste_none(
    shares: list[Share], slots: int, expected: float
) -> None:
    allotted = allot(shares, slots, expected)
    assert set(allotted) == {one.account_id for one in shares}
    assert all(0 <= allotted[one.account_id] <= one.demand for one in shares)
    assert sum(allotted.values()) == min(slots, sum(one.demand for one in shares))


@given(SHARES, st.integers(0, 100), st.floats(0.01, 60))
def test_what_may_be_in_flight_never_exceeds_the_slots_unless_it_runs_already(
    shares: list[Share], slots: int, expected: float
) -> None:
    allotted = allot(shares, slots, expected)
    limits = grant(shares, allotted, slots)
    running = sum(one.in_flight for one in shares)
    assert sum(max(limits[one.account_id], one.in_flight) for one in shares) <= max(slots, running)
    for one in shares:
        assert 0 <= limits[one.account_id] <= max(allotted[one.account_id], 0)
    if running <= slots and all(one.in_flight <= allotted[one.account_id] for one in shares):
        assert limits == allotted


@given(st.integers(1, 200), st.floats(0.01, 10))
def test_equals_share_equally(slots: int, expected: float) -> None:
    shares = [share(account, queued=1_000) for account in "abc"]
    counts = sorted(allot(shares, slots, expected).values())
    assert counts[-1] - counts[0] <= 1


def test_the_one_served_least_catches_up_first() -> None:
    shares = [share("old", queued=100, service=10.0), share("new", queued=100)]
    assert allot(shares, 8, 1.0) == {"old": 0, "new": 8}
    assert allot(shares, 30, 1.0) == {"old": 10, "new": 20}


def test_an_account_above_its_allotment_shrinks_as_its_requests_finish() -> None:
    greedy, newcomer = share("greedy", in_flight=10, queued=100, service=50.0), share("new", queued=100)
    assert grant([greedy, newcomer], {"greedy": 0, "new": 10}, 10) == {"greedy": 0, "new": 0}
    later = share("greedy", in_flight=4, queued=100, service=50.0)
    assert grant([later, newcomer], {"greedy": 0, "new": 10}, 10) == {"greedy": 0, "new": 6}


CANDIDATES = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 60), st.one_of(st.none(), st.floats(0, 100))),
    min_size=1,
    max_size=10,
    unique_by=lambda one: one[0],
).map(lambda rows: [candidate(*row) for row in rows])


@given(CANDIDATES, st.integers(1, 200))
def test_batches_give_what_is_asked_and_never_more_than_they_have(candidates: list[Candidate], count: int) -> None:
    chosen = choose_batches(candidates, count)
    taken = dict(chosen)
    assert len(taken) == len(chosen)
    queued = {one.batch_no: one.queued for one in candidates}
    assert all(0 < number <= queued[batch_no] for batch_no, number in chosen)
    assert sum(taken.values()) == min(count, sum(queued.values()))


@given(CANDIDATES, st.integers(2, 100))
def test_half_of_the_slots_go_by_deadline_and_half_by_size(candidates: list[Candidate], count: int) -> None:
    taken = dict(choose_batches(candidates, count))
    far = datetime.max.replace(tzinfo=UTC)
    urgent = min(candidates, key=lambda one: (one.expires_at or far, one.batch_no))
    small = min(candidates, key=lambda one: (one.queued, one.batch_no))
    for one, turns in ((urgent, (count + 1) // 2), (small, count // 2)):
        assert taken.get(one.batch_no, 0) >= min(one.queued, turns)


def test_a_small_batch_has_half_of_the_slots_beside_any_number_of_big_ones() -> None:
    big = [candidate(number, 50_000, hours=1) for number in range(1, 6)]
    small = candidate(99, 20, hours=20)
    assert Counter(dict(choose_batches([*big, small], 10))) == {1: 5, 99: 5}
    assert dict(choose_batches([*big, small], 64))[99] == 20


def test_oldest_first_where_deadlines_and_sizes_are_equal() -> None:
    batches = [candidate(number, 2) for number in (4, 2, 3, 1)]
    assert choose_batches(batches, 5) == [(1, 2), (2, 2), (3, 1)]


def test_probes_go_round_the_batches() -> None:
    batches = [candidate(number, 2, hours=number) for number in (4, 2, 3)]
    asked = [candidates_for_probe(batches, turn) for turn in range(1, 5)]
    assert [[one.batch_no for one in each] for each in asked] == [[3], [4], [2], [3]]
    assert candidates_for_probe([], 3) == []


# Room


def held(worker_no: int, slots: int, *, wants: bool = False) -> HeldSlots:
    return HeldSlots("a", worker_no, slots, wants)


@given(
    st.integers(0, 100),
    st.lists(st.builds(held, st.integers(1, 4), st.integers(0, 50), wants=st.booleans()), max_size=8),
)
def test_room_never_goes_over_what_others_leave(cap: int, slots: list[HeldSlots]) -> None:
    others = sum(one.slots for one in slots if one.worker_no != 1)
    room = room_here(cap, slots, 1)
    assert 0 <= room <= max(cap - others, 0)


@pytest.mark.parametrize(
    ("slots", "room"),
    [
        ([], 10),
        ([held(1, 10)], 10),
        ([held(2, 4)], 6),
        ([held(2, 10)], 0),
        ([held(2, 0, wants=True)], 5),
        ([held(2, 8, wants=True)], 2),
        ([held(2, 2, wants=True), held(3, 2)], 4),
        ([held(1, 9, wants=True)], 10),
    ],
)
def test_one_that_wants_more_gets_its_part(slots: list[HeldSlots], room: int) -> None:
    assert room_here(10, slots, 1) == room


@given(st.integers(0, 500), st.floats(0, 100), st.floats(0, 10))
def test_claimed_ahead_is_little_and_something(limit: int, mean: float, round_trip: float) -> None:
    ahead = prefetch(limit, mean, round_trip)
    assert (ahead == 0) if limit == 0 else (1 <= ahead <= 4 * limit)


@given(st.integers(1, 500), st.floats(0.01, 10))
def test_enough_is_claimed_ahead_for_what_finishes_while_a_claim_is_under_way(limit: int, mean: float) -> None:
    round_trip = 0.04
    assert prefetch(limit, mean, round_trip) >= min(limit, limit * round_trip / mean)
    # The faster requests are, the more; the slowest ones need one.
    assert prefetch(limit, mean / 2, round_trip) >= prefetch(limit, mean, round_trip)
    assert prefetch(limit, 1_000.0 * limit, round_trip) == 1


def test_a_higher_priority_comes_before_every_deadline() -> None:
    late = replace(candidate(1, 3, hours=1), priority=-1)
    usual = [candidate(2, 2, hours=9), candidate(3, 2, hours=5)]
    high = replace(candidate(4, 4), priority=7)
    assert choose_batches([late, *usual, high], 3) == [(4, 3)]
    assert choose_batches([late, *usual, high], 100) == [(4, 4), (3, 2), (2, 2), (1, 3)]
