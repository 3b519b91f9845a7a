"""When a batch should finish at its pace so far, and when it says that it will not be in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.batches.model import Job

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = Job(
    no=1,
    id="batch_1",
    account_id="a",
    key_id="k",
    api_surface="openai_inline",
    target="chat",
    input_id="file-1",
    output_id=None,
    error_id=None,
    metadata=None,
    anthropic_version=None,
    completion_window="24h",
    retention_days=7,
    phase="open",
    closing=None,
    status="in_progress",
    error_code=None,
    error_message=None,
    errors=None,
    created_at=NOON,
    in_progress_at=NOON,
    expires_at=NOON + timedelta(hours=24),
    closing_at=None,
    finalizing_at=None,
    sealed_at=None,
    results_expires_at=None,
    total=100,
    completed=15,
    failed=5,
    cancelled=0,
    expired=0,
    input_tokens=0,
    cached_tokens=0,
    output_tokens=0,
    reasoning_tokens=0,
    cost_usd=Decimal(0),
    cost_unknown_attempts=0,
    version=3,
    model="chat-1",
    blocked_reason=None,
    read_at=NOON + timedelta(hours=1),
)


def test_the_rest_takes_what_it_took_so_far() -> None:
    assert JOB.estimated_completion_at == NOON + timedelta(hours=5)
    assert JOB.finishes_in_time is True


def test_a_batch_that_cannot_finish_in_its_window_says_so() -> None:
    slow = replace(JOB, completed=3, failed=1)
    assert slow.estimated_completion_at == NOON + timedelta(hours=25)
    assert slow.finishes_in_time is False
    assert replace(slow, expires_at=None).finishes_in_time is None


@pytest.mark.parametrize(
    "changes",
    [
        {"read_at": None},
        {"in_progress_at": None},
        {"read_at": NOON},
        {"completed": 0, "failed": 0},
        {"phase": "validating"},
        {"phase": "sealing"},
        {"phase": "sealed"},
        {"closing": "cancelled"},
    ],
)
def test_it_is_unknown_or_no_longer_to_be_told(changes: dict[str, Any]) -> None:
    job = replace(JOB, **changes)
    assert (job.estimated_completion_at, job.finishes_in_time) == (None, None)
