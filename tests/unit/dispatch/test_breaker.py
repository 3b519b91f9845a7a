"""The circuit of a route: what opens it, who may try it, and what closes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dispatch.breaker import Breaker, BreakerRules

RULES = BreakerRules(failures=3, seconds=5.0, longest=20.0)


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(RULES.failures):
        breaker.fail(at, RULES, probe=False)
    return breaker


def test_failures_in_a_row_open_it_and_a_good_answer_starts_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker.fail(0.0, RULES, probe=False)
        breaker.fail(0.0, RULES, probe=False)
        breaker.succeed(probe=False)
    assert breaker.may_pass(0.0)
    assert opened().state(0.0) == "open"


def test_one_probe_at_a_time_and_only_it_closes() -> None:
    breaker = opened()
    assert not breaker.may_pass(4.9)
    breaker.succeed(probe=False)  # it began before the circuit opened
    assert not breaker.may_pass(4.9)
    assert breaker.may_pass(5.0)
    assert breaker.enter()
    assert (breaker.may_pass(5.0), breaker.state(5.0)) == (False, "half_open")
    breaker.succeed(probe=True)
    assert (breaker.state(5.0), breaker.failures, breaker.closed) == ("closed", 0, 1)


def test_a_failed_probe_doubles_the_wait_up_to_the_longest() -> None:
    breaker, now, waits = opened(), 5.0, []
    for _ in range(4):
        assert breaker.enter()
        breaker.fail(now, RULES, probe=True)
        assert breaker.ready_at is not None
        waits.append(breaker.ready_at - now)
        now = breaker.ready_at
    assert waits == [10.0, 20.0, 20.0, 20.0]
    assert breaker.opened == 1


def test_a_probe_that_was_broken_off_lets_another_try() -> None:
    breaker = opened()
    assert breaker.enter()
    breaker.abandon(probe=True)
    assert breaker.may_pass(5.0)


def test_zero_failures_never_open_it() -> None:
    breaker = Breaker()
    for _ in range(100):
        breaker.fail(0.0, BreakerRules(failures=0), probe=False)
    assert breaker.may_pass(0.0)


@given(st.lists(st.tuples(st.sampled_from(["enter", "well", "ill", "left"]), st.floats(0, 10)), max_size=200))
def test_never_two_probes_and_never_passed_while_it_is_open(moves: list[tuple[str, float]]) -> None:
    breaker, now, running = Breaker(), 0.0, []
    for move, later in moves:
        now += later
        if move == "enter":
            if breaker.may_pass(now):
                assert breaker.state(now) != "open"
                running.append(breaker.enter())
        elif running:
            probe = running.pop(0)
            if move == "well":
                breaker.succeed(probe=probe)
            elif move == "ill":
                breaker.fail(now, RULES, probe=probe)
            else:
                breaker.abandon(probe=probe)
        assert sum(running) <= 1
        assert breaker.is_closed or not breaker.may_pass(now) or not any(running)
