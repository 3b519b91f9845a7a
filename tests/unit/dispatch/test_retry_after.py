"""Retry-After in every form that servers send."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ebbtide.dispatch.retry_after import MAX_SECONDS, QUEUED_DEFAULT, queued_seconds, retry_seconds

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "wait", "queued"),
    [
        (None, None, QUEUED_DEFAULT),
        ("30", 30.0, 30.0),
        ("1.5", 1.5, 1.5),
        (" 7 ", 7.0, 7.0),
        ("0", None, 1.0),
        ("-5", None, QUEUED_DEFAULT),
        ("NaN", None, QUEUED_DEFAULT),
        ("inf", None, QUEUED_DEFAULT),
        ("-Infinity", None, QUEUED_DEFAULT),
        ("1e9", MAX_SECONDS, MAX_SECONDS),
        ("1e999", None, QUEUED_DEFAULT),
        ("soon", None, QUEUED_DEFAULT),
        ("", None, QUEUED_DEFAULT),
        ("9" * 5000, None, QUEUED_DEFAULT),
        ("Mon, 30 Nov 2026 12:01:00 GMT", 60.0, 60.0),
        ("Mon, 30 Nov 2026 11:59:00 GMT", None, QUEUED_DEFAULT),
        ("Mon, 30 Nov 2099 12:00:00 GMT", MAX_SECONDS, MAX_SECONDS),
        ("Mon, 30 Nov 2026 12:01:00", 60.0, 60.0),
        ("Mon, 99 Nov 2026 12:01:00 GMT", None, QUEUED_DEFAULT),
        ("Mon, 30 Nov 99999 12:01:00 GMT", None, QUEUED_DEFAULT),
    ],
)
def test_every_form(value: str | None, wait: float | None, queued: float) -> None:
    assert retry_seconds(value, NOW) == wait
    assert queued_seconds(value, NOW) == queued
