"""Batches and files as Gemini's API tells them. A batch that is being cancelled runs: clients know no other word."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET
from starlette.requests import Request

from ebbtide.batches.gemini_batches import GeminiJob
from ebbtide.batches.model import Job
from ebbtide.dialects.gemini.batch import (
    BatchStats,
    GeminiBatch,
    GeminiFailure,
    Operation,
    State,
    failure,
    responses_file,
)
from ebbtide.dialects.gemini.files import GeminiFile, batch_name, file_name
from ebbtide.dialects.gemini.models import PREFIX
from ebbtide.files.model import UPLOADED, StoredFile

_STATES: Final[dict[str, State]] = {
    "validating": "BATCH_STATE_PENDING",
    "completed": "BATCH_STATE_SUCCEEDED",
    "failed": "BATCH_STATE_FAILED",
    "cancelled": "BATCH_STATE_CANCELLED",
    "expired": "BATCH_STATE_EXPIRED",
}
_STOPPED: Final = {"cancelled": (499, "The batch was cancelled"), "expired": (504, "The batch expired")}


def operation(told: GeminiJob, inline: msgspec.Raw | None = None) -> Operation:
    """The batch; `inline` is the output of one of inline requests, where it is read."""
    job = told.job
    output = responses_file(file_name(job.output_id)) if job.output_id is not None else inline
    failed = _failed(job)
    return Operation(
        name=batch_name(job.id),
        metadata=_metadata(told, output),
        done=job.has_ended,
        error=UNSET if failed is None else failed,
        response=output if output is not None and failed is None and job.has_ended else UNSET,
    )


def gemini_file(file: StoredFile, request: Request) -> GeminiFile:
    """The file; its URIs are where the caller of `request` finds it."""
    name = file_name(file.id)
    uri = f"{request.url.scheme}://{request.url.netloc}/v1beta/{name}"
    return GeminiFile(
        name=name,
        display_name=file.filename,
        size_bytes=str(file.size),
        create_time=_time(file.created_at),
        update_time=_time(file.created_at),
        expiration_time=UNSET if file.expires_at is None else _time(file.expires_at),
        sha256_hash=base64.b64encode(file.sha256).decode(),
        uri=uri,
        download_uri=f"{uri}:download?alt=media",
        source="UPLOADED" if file.purpose == UPLOADED else "GENERATED",
    )


def _metadata(told: GeminiJob, output: msgspec.Raw | None) -> GeminiBatch:
    job = told.job
    return GeminiBatch(
        model=PREFIX + (job.model or ""),
        name=batch_name(job.id),
        display_name=told.display_name,
        input_config=UNSET if job.input_file_id is None else {"fileName": file_name(job.input_file_id)},
        output=UNSET if output is None else output,
        create_time=_time(job.created_at),
        end_time=UNSET if job.sealed_at is None else _time(job.sealed_at),
        update_time=_time(job.sealed_at or job.closing_at or job.in_progress_at or job.created_at),
        batch_stats=_stats(job),
        state=_STATES.get(job.status, "BATCH_STATE_RUNNING"),
        priority=str(told.priority),
    )


def _stats(job: Job) -> BatchStats:
    return BatchStats(
        request_count=str(job.total),
        successful_request_count=str(job.completed),
        failed_request_count=str(job.failed + job.cancelled + job.expired),
        pending_request_count=str(job.total - job.finished),
    )


def _failed(job: Job) -> GeminiFailure | None:
    """Why the batch came to no good end."""
    if not job.has_ended or job.status == "completed":
        return None
    if job.status in _STOPPED:
        return failure(*_STOPPED[job.status])
    return failure(400, job.error_message or _first_problem(job) or "The batch failed")


def _first_problem(job: Job) -> str | None:
    if job.errors is None:
        return None
    problem = msgspec.json.decode(job.errors, type=list[dict[str, object]])[0]
    line = problem.get("line")
    return f"{problem['message']}" if line is None else f"Line {line}: {problem['message']}"


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
