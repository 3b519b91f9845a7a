"""Batches as Anthropic's Message Batches tell them. Counts move when the batch has ended, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from starlette.requests import Request

from ebbtide.batches.model import Job
from ebbtide.dialects.anthropic.batch import MessageBatch, MessageBatchPage, MessageCounts

_PATH: Final = "/v1/messages/batches"


def message_batch(job: Job, request: Request) -> MessageBatch:
    """The batch; its results are where the caller of `request` finds them."""
    assert job.expires_at is not None  # they all have a window
    cancelled_at = job.closing_at if job.closing == "cancelled" else None
    return MessageBatch(
        id=job.id,
        processing_status=_status(job),
        request_counts=_counts(job),
        ended_at=_time(job.sealed_at),
        created_at=job.created_at.isoformat().replace("+00:00", "Z"),
        expires_at=job.expires_at.isoformat().replace("+00:00", "Z"),
        cancel_initiated_at=_time(cancelled_at),
        results_url=_results_url(job, request) if job.has_ended else None,
    )


def message_batch_page(jobs: Sequence[Job], request: Request, *, has_more: bool) -> MessageBatchPage:
    """A page of batches; its ids are the cursors of the pages beside it."""
    first, last = (jobs[0].id, jobs[-1].id) if jobs else (None, None)
    data = [message_batch(job, request) for job in jobs]
    return MessageBatchPage(data=data, has_more=has_more, first_id=first, last_id=last)


def _status(job: Job) -> Literal["in_progress", "canceling", "ended"]:
    if job.has_ended:
        return "ended"
    return "canceling" if job.closing == "cancelled" else "in_progress"


def _counts(job: Job) -> MessageCounts:
    if not job.has_ended:
        return MessageCounts(processing=job.total)
    return MessageCounts(succeeded=job.completed, errored=job.failed, canceled=job.cancelled, expired=job.expired)


def _results_url(job: Job, request: Request) -> str:
    prefix = request.url.path.partition(_PATH)[0]
    return f"{request.url.scheme}://{request.url.netloc}{prefix}{_PATH}/{job.id}/results"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
