"""Retry-After, in whatever form it comes (RFC 9110, 10.2.3: seconds or a date; servers also send rubbish)."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 168 * 3600.0
QUEUED_DEFAULT = 120.0
QUEUED_LEAST = 1.0


def retry_seconds(value: str | None, now: datetime) -> float | None:
    """Seconds to wait, at most 168 hours; None when there is no header or it asks for nothing that makes sense."""
    seconds = _seconds(value, now)
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return None
    return min(seconds, MAX_SECONDS)


def queued_seconds(value: str | None, now: datetime) -> float:
    """Seconds that a queued deployment asked for: two minutes by default, and for negative or non-finite ones."""
    seconds = _seconds(value, now)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return QUEUED_DEFAULT
    return min(max(seconds, QUEUED_LEAST), MAX_SECONDS)


def _seconds(value: str | None, now: datetime) -> float | None:
    if value is None or len(value) > 64:
        return None
    try:
        return float(value)
    except ValueError:
        return _until(value, now)


def _until(value: str, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return (date - now).total_seconds()
