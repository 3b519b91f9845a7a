"""Lanes: never more in flight than the limit, every item started once, in the order it came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.accounts.roles import Role
from ebbtide.batches.claim_store import ClaimableBatch, ClaimedItem
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.pace import Pace


def work(number: int, *, model: str = "m", account: str = "a", batch_no: int = 1) -> Work:
    item = ClaimedItem(batch_no, number, 1, 0, f"c{number}", 0, 0, 2, None)
    batch = ClaimableBatch(batch_no, f"batch_{batch_no}", account, "key", "chat", "file-x", None)
    return Work(item, batch, model, Role.INTERNAL)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "limit", "finish", "take"]), st.integers(0, 12), st.sampled_from("ab")),
    max_size=60,
)


@given(STEPS)
def test_no_lane_ever_exceeds_its_limit_and_nothing_is_lost(steps: list[tuple[str, int, str]]) -> None:
    started: list[Work] = []
    running: list[Work] = []

    def start(one: Work) -> None:
        started.append(one)
        running.append(one)

    lanes = Lanes(start)
    added, back = 0, 0
    for name, number, account in steps:
        if name == "add":
            lanes.add([work(added + n, account=account) for n in range(number)])
            added += number
            lanes.start_waiting("m", account)
        elif name == "limit":
            lanes.lane("m", account).limit = number
            lanes.start_waiting("m", account)
        elif name == "finish":
            mine = [one for one in running if one.batch.account_id == account]
            if mine:
                running.remove(mine[0])
                if (successor := lanes.finished(mine[0])) is not None:
                    start(successor)
        else:
            back += len(lanes.take_waiting(lambda one, n=number: one.item.id % 3 == n % 3))  # type: ignore[misc]  # bound
        for of, lane in lanes.of_model("m").items():
            mine = [one for one in running if one.batch.account_id == of]
            assert lane.in_flight == len(mine)
            # A limit that was lowered stops nothing; otherwise waiting items use every free slot.
            assert not lane.waiting or lane.in_flight >= lane.limit
    waiting = sum(len(lane.waiting) for lane in lanes.of_model("m").values())
    assert len(started) + waiting + back == added
    for account in "ab":
        order = [one.item.id for one in started if one.batch.account_id == account]
        assert order == sorted(order)


def test_a_lowered_limit_lets_running_ones_finish() -> None:
    started: list[Work] = []
    lanes = Lanes(started.append)
    lanes.add([work(n) for n in range(5)])
    lanes.lane("m", "a").limit = 3
    lanes.start_waiting("m", "a")
    lanes.lane("m", "a").limit = 1
    assert [lanes.finished(one) for one in started[:2]] == [None, None]
    successor = lanes.finished(started[2])
    assert successor is not None
    assert (successor.item.id, len(started)) == (3, 3)


def test_lanes_that_hold_nothing_are_forgotten() -> None:
    lanes = Lanes(lambda _: None)
    lanes.add([work(1), work(2, model="n", batch_no=7)])
    assert lanes.models() == ["m", "n"]
    assert {one.batch.no for one in lanes.waiting()} == {1, 7}
    assert [one.item.id for one in lanes.take_waiting(lambda one: one.batch.no == 7)] == [2]
    lanes.forget_empty("n")
    lanes.forget_empty("m")
    assert lanes.models() == ["m"]
    generation = lanes.generation
    lanes.clear()
    assert (lanes.models(), lanes.generation) == ([], generation + 1)


def test_the_pace_is_learned_and_forgets_slowly() -> None:
    pace = Pace()
    assert pace.mean_seconds("m") == 1.0
    pace.ran("m", 10.0)
    assert pace.mean_seconds("m") == 10.0
    assert pace.mean_seconds("other") == 1.0
    for _ in range(200):
        pace.ran("m", 2.0)
    assert 2.0 <= pace.mean_seconds("m") < 2.1
    before = pace.round_trip_seconds
    pace.claimed(10.0)
    assert before < pace.round_trip_seconds < 1.0
