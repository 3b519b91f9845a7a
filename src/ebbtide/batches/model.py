"""A batch as it is stored, and what the outside is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

from ebbtide.batches.states import FINAL_STATUSES
from ebbtide.dialects.values import ENDPOINT_FOR, ENDPOINTS, Target

# What this build can run: every query of a worker filters on these three.
MESSAGE_BATCHES: Final = "anthropic"  # the surface of those made through Anthropic's own Message Batches
GEMINI: Final = "gemini"  # the surface of those made through Gemini's API
SURFACES: Final = ("openai_inline", "openai_file", MESSAGE_BATCHES, GEMINI)
TARGETS: Final = tuple(endpoint.target for endpoint in ENDPOINTS)
BATCH_SCHEMA_VERSION: Final = 2  # the newest it can run, and what it writes
KNOWN: Final = (list(SURFACES), list(TARGETS), BATCH_SCHEMA_VERSION)

WORK_CHANNEL: Final = "ebbtide_work"  # something may be claimed
DUTY_CHANNEL: Final = "ebbtide_duty"  # a batch waits to be validated, closed or sealed


@dataclass(frozen=True, slots=True)
class Job:
    """A row of batch_jobs. Times are aware UTC datetimes; `errors` and `metadata` are JSON text as stored.

    `version` is raised by every change; `model` is the one that all requests name, once they are known.
    `blocked_reason` and the estimates are told where the batch was read with a moment, which is then `read_at`.
    `from_file`: of a Gemini batch, a file holds its requests.
    """

    no: int
    id: str
    account_id: str
    key_id: str
    api_surface: str
    target: Target
    input_id: str
    output_id: str | None
    error_id: str | None
    metadata: str | None
    completion_window: str
    retention_days: int
    phase: str
    closing: str | None
    status: str
    error_code: str | None
    error_message: str | None
    errors: str | None
    created_at: datetime
    in_progress_at: datetime | None
    expires_at: datetime | None
    closing_at: datetime | None
    finalizing_at: datetime | None
    sealed_at: datetime | None
    results_expires_at: datetime | None
    total: int
    completed: int
    failed: int
    cancelled: int
    expired: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: Decimal
    cost_unknown_attempts: int
    version: int
    model: str | None
    anthropic_version: str | None
    blocked_reason: str | None
    read_at: datetime | None
    from_file: bool = False

    @property
    def endpoint(self) -> str:
        return ENDPOINT_FOR[self.target].url

    @property
    def input_file_id(self) -> str | None:
        """The uploaded file; None for a direct batch, whose lines are nobody's file."""
        return self.input_id if self.api_surface == "openai_file" or self.from_file else None

    @property
    def has_ended(self) -> bool:
        return self.phase == "sealed"

    @property
    def finished(self) -> int:
        """How many of its requests have an outcome."""
        return self.completed + self.failed + self.cancelled + self.expired

    @property
    def estimated_completion_at(self) -> datetime | None:
        """When its last request ends at the pace so far; None while that is unknown, and once nothing more starts."""
        if self.read_at is None or self.in_progress_at is None or self.phase != "open" or self.closing is not None:
            return None
        if not self.finished or self.read_at <= self.in_progress_at:
            return None
        remaining = self.total - self.finished
        return self.read_at + (self.read_at - self.in_progress_at) * remaining / self.finished

    @property
    def finishes_in_time(self) -> bool | None:
        """Whether that is before its window closes; None where there is no estimate or no window."""
        estimate = self.estimated_completion_at
        return None if estimate is None or self.expires_at is None else estimate <= self.expires_at


def job_from_row(row: Any) -> Job:
    return Job(**row)


def timestamps(job: Job) -> dict[str, int | None]:
    """The batch object's times in Unix seconds, under OpenAI's field names; None until reached."""
    ended = {f"{status}_at": job.sealed_at if job.status == status else None for status in FINAL_STATUSES}
    times = {
        "created_at": job.created_at,
        "in_progress_at": job.in_progress_at,
        "expires_at": job.expires_at,
        "finalizing_at": job.finalizing_at,
        "cancelling_at": job.closing_at if job.closing == "cancelled" else None,
        "results_expires_at": job.results_expires_at,
        **ended,
    }
    return {name: None if time is None else int(time.timestamp()) for name, time in times.items()}


def window_end(created: datetime, hours: int) -> datetime | None:
    """When a batch's unstarted requests expire; `hours` 0 means never."""
    return created + timedelta(hours=hours) if hours else None


class Item(msgspec.Struct, frozen=True, gc=False):
    """A request whose line lies at (chunk, offset, length) of the batch's input.

    It passed its checks, or there is an error: then it has failed before anything ran.
    """

    custom_id: str
    model: str
    chunk: int
    line_offset: int
    line_length: int
    max_tokens: int | None
    error_code: str | None = None
    error_message: str | None = None
    error_status: int | None = None

    @property
    def state(self) -> str:
        return "queued" if self.error_code is None else "failed"


class LineProblem(msgspec.Struct, frozen=True):
    """One thing wrong with a file, in the shape of OpenAI's `errors.data[]`."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None
