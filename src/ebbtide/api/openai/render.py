"""From the domain's values to OpenAI's wire objects; the one place where a batch becomes a batch object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal, TypeVar, cast

import msgspec

from ebbtide.api.answers import list_page
from ebbtide.batches.model import MESSAGE_BATCHES, Job, timestamps
from ebbtide.batches.results import Result
from ebbtide.batches.watch import Progress
from ebbtide.delivery.lines import error_of
from ebbtide.delivery.store import Event, Webhook
from ebbtide.dialects.openai.batch import (
    BatchDone,
    BatchErrorItem,
    BatchErrors,
    BatchFailure,
    BatchObject,
    BatchProgress,
    BatchStatus,
    BlockedReason,
    FileObject,
    ItemStatus,
    ListPage,
    ModelList,
    ModelObject,
    RequestCounts,
    ResultError,
    ResultItem,
    ResultResponse,
    batch_usage,
    encode,
)
from ebbtide.dialects.openai.webhook import WebhookEvent, WebhookObject
from ebbtide.dialects.values import Usage
from ebbtide.files.model import StoredFile
from ebbtide.ids import result_id
from ebbtide.page import Page

InputMethod = Literal["requests", "file", "message_batches"]
Source = TypeVar("Source")
Wire = TypeVar("Wire", BatchObject, FileObject, ResultItem, WebhookEvent)

_decode_metadata = msgspec.json.Decoder(dict[str, str]).decode
_decode_errors = msgspec.json.Decoder(list[BatchErrorItem]).decode


def input_method(job: Job) -> InputMethod:
    """How a batch's requests came."""
    if job.input_file_id is not None:
        return "file"
    return "message_batches" if job.api_surface == MESSAGE_BATCHES else "requests"


def batch_object(job: Job) -> BatchObject:
    """The batch as its owner sees it."""
    times = timestamps(job)
    return BatchObject(
        id=job.id,
        endpoint=job.endpoint,
        model=job.model,
        anthropic_version=job.anthropic_version,
        errors=None if job.errors is None else BatchErrors(data=_decode_errors(job.errors)),
        input_file_id=job.input_file_id,
        completion_window=job.completion_window,
        status=cast(BatchStatus, job.status),
        output_file_id=job.output_id,
        error_file_id=job.error_id,
        request_counts=_counts(job),
        metadata=None if job.metadata is None else _decode_metadata(job.metadata),
        usage=batch_usage(Usage(job.input_tokens, job.cached_tokens, job.output_tokens, job.reasoning_tokens)),
        cost_usd=float(job.cost_usd),
        cost_unknown_attempts=job.cost_unknown_attempts,
        error=_failure(job),
        estimated_completion_at=_seconds_or_none(job.estimated_completion_at),
        finishes_in_time=job.finishes_in_time,
        blocked_reason=cast("BlockedReason | None", job.blocked_reason),
        created_at=_seconds(job.created_at),
        in_progress_at=times["in_progress_at"],
        expires_at=times["expires_at"],
        finalizing_at=times["finalizing_at"],
        completed_at=times["completed_at"],
        failed_at=times["failed_at"],
        expired_at=times["expired_at"],
        cancelling_at=times["cancelling_at"],
        cancelled_at=times["cancelled_at"],
        results_expires_at=times["results_expires_at"],
    )


def progress_events(batch_id: str, progress: Progress) -> bytes:
    """A batch's state as server-sent events; the last state is followed by `done`. An event's id is the version."""
    job = progress.job
    if job is None:
        return _event("done", BatchDone(id=batch_id, status="deleted"))
    status = cast(BatchStatus, job.status)
    told = BatchProgress(
        id=job.id,
        status=status,
        request_counts=_counts(job),
        rate=progress.rate,
        expires_at=_seconds_or_none(job.expires_at),
        estimated_completion_at=_seconds_or_none(job.estimated_completion_at),
        finishes_in_time=job.finishes_in_time,
        blocked_reason=cast("BlockedReason | None", job.blocked_reason),
    )
    events = _event("batch", told, job.version)
    return events + _event("done", BatchDone(id=job.id, status=status)) if progress.is_last else events


def _event(name: str, data: BatchProgress | BatchDone, number: int | None = None) -> bytes:
    numbered = b"" if number is None else b"id: %d\n" % number
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), numbered, encode(data))


def file_object(file: StoredFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.size,
        created_at=_seconds(file.created_at),
        expires_at=None if file.expires_at is None else _seconds(file.expires_at),
        filename=file.filename,
        purpose="batch" if file.purpose == "batch" else "batch_output",
    )


def model_object(name: str) -> ModelObject:
    """A model tells no time of its own: `created` is always 0."""
    return ModelObject(id=name, created=0)


def model_list(names: Sequence[str]) -> ModelList:
    return ModelList(data=[model_object(name) for name in names])


def result_item(result: Result) -> ResultItem:
    """One request with its outcome so far."""
    response = None
    if result.answer is not None:
        response = ResultResponse(request_id=result.request_id, body=msgspec.Raw(result.answer))
    return ResultItem(
        id=result_id(result.id),
        custom_id=result.custom_id,
        status=cast(ItemStatus, result.state),
        response=response,
        error=_result_error(result),
    )


def webhook_object(webhook: Webhook, secret: str | None = None) -> WebhookObject:
    """The webhook as its owner sees it; `secret` is given when it is new."""
    return WebhookObject(
        url=webhook.url,
        enabled=webhook.enabled,
        created_at=_seconds(webhook.created_at),
        updated_at=_seconds(webhook.updated_at),
        paused_until=_seconds_or_none(webhook.rest_until),
        secret=msgspec.UNSET if secret is None else secret,
    )


def webhook_event(event: Event) -> WebhookEvent:
    return WebhookEvent(
        id=event.id,
        type=event.type,
        created_at=_seconds(event.created_at),
        batch_id=event.batch_id,
        state=event.state,
        attempts=event.attempts,
        next_attempt_at=_seconds_or_none(event.next_at),
        delivered_at=_seconds_or_none(event.delivered_at),
        last_status=event.last_status,
        last_error=event.last_error,
    )


def webhook_event_list(page: Page[Event]) -> ListPage[WebhookEvent]:
    return _list_page(page, webhook_event)


def batch_list(page: Page[Job]) -> ListPage[BatchObject]:
    return _list_page(page, batch_object)


def file_list(page: Page[StoredFile]) -> ListPage[FileObject]:
    return _list_page(page, file_object)


def result_list(page: Page[Result]) -> bytes:
    """A results page as JSON bytes; it may hold about 8 MiB, so this is work for a thread."""
    return msgspec.json.encode(_list_page(page, result_item))


def _list_page(page: Page[Source], render: Callable[[Source], Wire]) -> ListPage[Wire]:
    data = [render(item) for item in page.items]
    return list_page(data, [one.id for one in data], page.has_more)


def _counts(job: Job) -> RequestCounts:
    """What a failed or expired batch never ran counts as failed (what expired is told apart, too)."""
    return RequestCounts(
        total=job.total,
        completed=job.completed,
        failed=job.failed + job.expired,
        cancelled=job.cancelled,
        expired=job.expired,
    )


def _failure(job: Job) -> BatchFailure | None:
    if job.error_code is None:
        return None
    return BatchFailure(code=job.error_code, message=job.error_message or "")


def _result_error(result: Result) -> ResultError | None:
    if result.state == "expired":
        return error_of(result)
    if result.error_code is None or result.state == "completed":
        return None
    status = msgspec.UNSET if result.error_status is None else result.error_status
    return ResultError(code=result.error_code, message=result.error_message or "", status=status)


def _seconds(time: datetime) -> int:
    return int(time.timestamp())


def _seconds_or_none(time: datetime | None) -> int | None:
    return None if time is None else _seconds(time)
