"""The circuit, under any order of calls and ends of calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.dispatch.breaker import Breaker, BreakerRules

RULES = BreakerRules(failures=3, seconds=4.0, longest=20.0)
STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "well", "ill", "abandon"]), st.floats(0, 10), st.integers(0, 20)), max_size=80
)


@given(STEPS)
def test_one_probe_at_a_time_and_only_it_closes_an_open_circuit(steps: list[tuple[str, float, int]]) -> None:
    breaker, now = Breaker(), 0.0
    running: list[bool] = []
    for verb, seconds, which in steps:
        now += seconds
        was_open, closed = not breaker.is_closed, breaker.closed
        if verb == "enter":
            if breaker.may_pass(now):
                assert not was_open or now >= (breaker.ready_at or 0.0)
                running.append(breaker.enter())
        elif running:
            probe = running.pop(which % len(running))
            if verb == "well":
                breaker.succeed(probe=probe)
            elif verb == "ill":
                breaker.fail(now, RULES, probe=probe)
            else:
                breaker.abandon(probe=probe)
            assert (breaker.closed > closed) == (verb == "well" and probe)
            assert breaker.is_closed or not was_open or breaker.closed == closed
        assert sum(running) <= 1
        assert breaker.closed <= breaker.opened <= breaker.closed + 1
        assert breaker.is_closed == (breaker.opened == breaker.closed)
        assert not breaker.is_closed or breaker.failures < RULES.failures


def test_failures_in_a_row_open_it_and_each_failed_probe_doubles_its_rest() -> None:
    breaker = Breaker()
    breaker.fail(0.0, RULES, probe=False)
    breaker.fail(0.0, RULES, probe=False)
    breaker.succeed(probe=False)
    for _ in range(3):
        assert breaker.is_closed
        breaker.fail(1.0, RULES, probe=breaker.enter())
    rests, now = [], 1.0
    for _ in range(4):
        assert breaker.ready_at is not None
        assert breaker.state(breaker.ready_at - 0.1) == "open"
        assert not breaker.may_pass(breaker.ready_at - 0.1)
        rests.append(breaker.ready_at - now)
        now = breaker.ready_at
        assert breaker.enter()
        assert not breaker.may_pass(now)
        breaker.fail(now, RULES, probe=True)
    assert rests == [4.0, 8.0, 16.0, 20.0]


def test_no_failures_configured_never_opens_it() -> None:
    breaker = Breaker()
    for _ in range(100):
        breaker.fail(0.0, BreakerRules(failures=0), probe=breaker.enter())
    assert breaker.is_closed
