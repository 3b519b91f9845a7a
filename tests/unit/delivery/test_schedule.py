"""When an event is tried again, and how long an endpoint that times out rests."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from ebbtide.delivery.schedule import ATTEMPTS, Health, after_failure, after_success, next_try

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0), (1, 5), (2, 30), (3, 120), (4, 600), (5, 1_800), (6, 7_200), (7, 21_600)]
)
def test_the_waits(attempts: int, seconds: int) -> None:
    waits = {(_next(attempts, seed) - NOW).total_seconds() for seed in range(50)}
    assert all(seconds * 0.9 <= wait <= seconds * 1.1 for wait in waits)
    assert (len(waits) > 1) is (seconds > 0), "jittered"


def test_the_eighth_try_is_the_last() -> None:
    assert ATTEMPTS == 8
    assert next_try(8, NOW, random.Random(1)) is None


def _next(attempts: int, seed: int) -> datetime:
    time = next_try(attempts, NOW, random.Random(seed))
    assert time is not None
    return time


def test_three_timeouts_in_a_row_rest_the_endpoint_and_further_ones_for_longer() -> None:
    health, rests = Health(), []
    for _ in range(7):
        health = after_failure(health, NOW, timed_out=True)
        rests.append(None if health.rest_until is None else (health.rest_until - NOW) / timedelta(minutes=1))
    assert rests == [None, None, 10, 20, 40, 60, 60]


def test_an_answer_ends_the_row_and_a_success_clears_everything() -> None:
    health = after_failure(after_failure(Health(), NOW, timed_out=True), NOW, timed_out=True)
    health = after_failure(health, NOW, timed_out=False)
    assert health == Health(0, 0, None)
    for _ in range(3):
        health = after_failure(health, NOW, timed_out=True)
    assert health.rest_level == 1
    refused = after_failure(health, NOW, timed_out=False)
    assert (refused.timeouts_in_row, refused.rest_level, refused.rest_until) == (0, 1, None)
    assert after_success() == Health()
