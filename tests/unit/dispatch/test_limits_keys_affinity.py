"""A route's limit, its keys, and the route that a conversation keeps to."""

from __future__ import annotations

from ebbtide.dispatch.affinity import Affinity
from ebbtide.dispatch.keys import AFTER_REFUSED, KeyPool
from ebbtide.dispatch.limits import Limiter


def test_a_429_halves_what_was_in_flight_once_for_all_that_ran_then() -> None:
    limiter = Limiter()
    limiter.in_flight = 40
    for _ in range(10):
        limiter.limited(began_at=1.0, now=2.0)
    assert limiter.limit == 20
    limiter.in_flight = 20
    limiter.limited(began_at=2.5, now=3.0)
    assert limiter.limit == 10


def test_the_limit_grows_by_one_for_each_limit_of_good_answers_up_to_the_configured_one() -> None:
    limiter = Limiter(most=8)
    limiter.in_flight = 8
    limiter.limited(began_at=0.0, now=1.0)
    assert limiter.limit == 4
    for _ in range(4 + 5):
        limiter.served()
    assert limiter.limit == 6
    for _ in range(1_000):
        limiter.served()
    assert limiter.limit == 8


def test_the_limit_is_never_below_one() -> None:
    limiter = Limiter()
    limiter.in_flight = 1
    for number in range(5):
        limiter.limited(began_at=number + 1.0, now=number + 1.0)
    assert limiter.limit == 1


def test_keys_are_taken_in_turn_and_rest_after_a_refusal() -> None:
    keys = KeyPool(["a", "b", "c"])
    assert [keys.take(0.0) for _ in range(4)] == ["a", "b", "c", "a"]
    keys.limited("b", 0.0, 30.0)
    keys.refused("c", 0.0)
    assert {keys.take(1.0) for _ in range(4)} == {"a"}
    assert (keys.resting(1.0), keys.rests, keys.ready_in(1.0)) == (2, 2, 0.0)
    keys.limited("a", 1.0, None)
    assert keys.take(1.5) is None
    assert 0 < keys.ready_in(1.5) <= 2.0
    assert keys.take(31.0) in ("a", "b")
    assert keys.resting(AFTER_REFUSED + 1) == 0


def test_an_only_key_never_rests_and_no_key_is_none() -> None:
    only = KeyPool(["a"])
    only.limited("a", 0.0, 60.0)
    only.refused("a", 0.0)
    assert (only.take(0.0), only.ready_in(0.0)) == ("a", 0.0)
    assert (KeyPool([]).take(0.0), KeyPool([]).ready_in(0.0)) == (None, 0.0)


def test_a_conversation_keeps_its_route_for_a_sliding_time() -> None:
    affinity = Affinity(capacity=2)
    affinity.keep("ada", "m", "a", until=10.0)
    affinity.keep("ada", "m", "a", until=20.0)
    assert affinity.find("ada", "m", 15.0) == "a"
    assert affinity.find("ada", "other", 15.0) is None
    assert affinity.find("ada", "m", 20.0) is None
    affinity.keep("ada", "m", "b", until=40.0)
    affinity.drop("ada", "m", "a")
    assert affinity.find("ada", "m", 30.0) == "b"
    affinity.drop("ada", "m", "b")
    assert affinity.find("ada", "m", 30.0) is None
    for name in ("x", "y", "z"):
        affinity.keep(name, "m", "a", until=99.0)
    assert [affinity.find(name, "m", 1.0) for name in ("x", "y", "z")] == [None, "a", "a"]
