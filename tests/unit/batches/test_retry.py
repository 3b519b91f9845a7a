"""When a failed request is tried again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.batches.intake_store import Unfinished
from ebbtide.batches.limits import check_queued, check_room_for
from ebbtide.batches.retry import MAX_ATTEMPTS, backoff, next_try
from ebbtide.errors import LimitReached
from ebbtide.settings.snapshot import Settings

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@given(st.integers(1, 3_000), st.integers(0, 1_000))
def test_delays_double_up_to_a_quarter_of_an_hour_with_jitter(attempts: int, seed: int) -> None:
    base = min(5 * 2 ** min(attempts - 1, 30), 900)
    assert base / 2 <= backoff(attempts, None, random.Random(seed)) <= base


@given(st.integers(1, 3_000), st.floats(0, 604_800))
def test_a_longer_wait_asked_for_wins_and_a_shorter_one_does_not(attempts: int, retry_after: float) -> None:
    plain = backoff(attempts, None, random.Random(1))
    assert backoff(attempts, retry_after, random.Random(1)) == max(plain, retry_after)


def test_delays_differ_from_each_other() -> None:
    rng = random.Random(1)
    assert len({backoff(5, None, rng) for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("delay", "attempts", "window", "again"),
    [
        (10, 1, None, True),
        (10, 1, 10.001, True),
        (10, 1, 10, False),  # the window has closed by then
        (10, 1, 5, False),
        (10, MAX_ATTEMPTS - 1, None, True),
        (10, MAX_ATTEMPTS, None, False),
    ],
)
def test_no_try_begins_after_the_window_or_beyond_the_last(
    delay: float, attempts: int, window: float | None, again: bool
) -> None:
    end = None if window is None else NOW + timedelta(seconds=window)
    assert next_try(NOW, delay, attempts, end) == (NOW + timedelta(seconds=delay) if again else None)


@given(st.integers(0, 30), st.integers(0, 300), st.integers(0, 300))
def test_limits_are_reached_and_not_passed(batches: int, queued: int, requests: int) -> None:
    settings = Settings(batch_max_active_per_user=10, batch_max_queued_requests_per_user=100)
    if batches >= 10 or queued + requests > 100:
        with pytest.raises(LimitReached) as told:
            check_room_for(requests, Unfinished(batches, queued), settings)
        assert told.value.code == ("active_batch_limit" if batches >= 10 else "queued_request_limit")
    else:
        check_room_for(requests, Unfinished(batches, queued), settings)
        check_queued(requests, queued, settings)
