"""The wire objects of batches, files and models, fields in the order the API documents them, and their JSONL lines.

Answers are spliced in as stored: they were checked and made one line when they came (see responses.read_answer).
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ebbtide.dialects.openai.errors import error_body
from ebbtide.dialects.values import Usage, one_line
from ebbtide.ids import result_id

T = TypeVar("T")

BatchStatus = Literal[
    "validating", "in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled"
]
ItemStatus = Literal["queued", "running", "completed", "failed", "cancelled", "expired"]
BlockedReason = Literal[
    "model_queued",
    "model_paused",
    "yielding",
    "daily_quota",
    "monthly_quota",
    "key_budget",
    "role",
    "no_route_up",
    "model_cap",
    "account_cap",
    "load_unknown",
]
NeverRun = Literal["batch_cancelled", "batch_expired", "batch_failed"]

encode = msgspec.json.Encoder().encode


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`failed` includes the requests that a failed or expired batch never ran; `expired` tells those of the latter."""

    total: int
    completed: int
    failed: int
    cancelled: int = 0
    expired: int = 0


class InputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    cached_tokens: int


class OutputTokensDetails(msgspec.Struct, frozen=True, gc=False):
    reasoning_tokens: int


class BatchUsage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of the finished requests; clients' models require every field, so zeros stand where there are none."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class BatchErrorItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One problem of an input file; `line` counts from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class BatchErrors(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["list"] = "list"
    data: list[BatchErrorItem]


class BatchFailure(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a whole batch failed."""

    code: str
    message: str


class BatchObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A batch. Times are Unix seconds, null until reached; `model` is set when all its requests name one.

    `blocked_reason` tells why nothing of it runs although requests wait; `estimated_completion_at` when it ends at its
    pace so far, and `finishes_in_time` whether its window is still open then. All three are null once it is ending.
    """

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None = None
    errors: BatchErrors | None = None
    input_file_id: str | None = None
    completion_window: str
    status: BatchStatus
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts
    metadata: dict[str, str] | None = None
    usage: BatchUsage
    anthropic_version: str | None = None
    cost_usd: float
    cost_unknown_attempts: int
    results_expires_at: int | None = None
    error: BatchFailure | None = None
    estimated_completion_at: int | None = None
    finishes_in_time: bool | None = None
    blocked_reason: BlockedReason | None = None


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The data of an event `batch`. `rate` is requests that ended in a second, over the last minute as far as seen."""

    id: str
    object: Literal["batch.progress"] = "batch.progress"
    status: BatchStatus
    request_counts: RequestCounts
    rate: float | None
    expires_at: int | None
    estimated_completion_at: int | None
    finishes_in_time: bool | None
    blocked_reason: BlockedReason | None


class BatchDone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The data of the event `done`, which ends a stream of progress."""

    id: str
    object: Literal["batch.done"] = "batch.done"
    status: BatchStatus | Literal["deleted"]


class BatchDeleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    object: Literal["batch.deleted"] = "batch.deleted"
    deleted: Literal[True] = True


class FileObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored file. `status` is always `processed`: anything else makes the SDK's wait_for_processing poll."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None = None
    filename: str
    purpose: Literal["batch", "batch_output"]
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class ModelObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A model as callers know it; says nothing about its upstreams."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["ebbtide"] = "ebbtide"


class ModelList(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    object: Literal["list"] = "list"
    data: list[ModelObject]


class ResultResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`body` is the endpoint's answer as stored."""

    status_code: int = 200
    request_id: str | None
    body: msgspec.Raw


class ResultError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`status` is the HTTP status behind the error, left out when there was none."""

    code: str
    message: str
    status: int | UnsetType = UNSET


class ResultItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request of a batch as a results page shows it; a retried one keeps its last `error` while it waits."""

    id: str
    custom_id: str
    status: ItemStatus
    response: ResultResponse | None = None
    error: ResultError | None = None


class ListPage(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """A page of a list; the next one comes after `last_id`."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool
    first_id: str | None
    last_id: str | None


def batch_usage(usage: Usage) -> BatchUsage:
    """The batch object's `usage` from the sum of its requests' tokens."""
    return BatchUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(usage.cached_tokens),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


def output_line(number: int, custom_id: str, request_id: str | None, body: bytes) -> bytes:
    """The JSONL line of a request that succeeded; `body` is the stored answer, on one line already."""
    return b'%b,"response":{"status_code":200,"request_id":%b,"body":%b},"error":null}\n' % (
        _head(number, custom_id),
        encode(request_id),
        body,
    )


def error_line(number: int, custom_id: str, request_id: str | None, error: ResultError) -> bytes:
    """The JSONL line of a request that failed: an HTTP failure keeps its status and body, any other is in `error`."""
    if error.status is UNSET:
        told = encode(BatchFailure(code=error.code, message=error.message))
        return b'%b,"response":null,"error":%b}\n' % (_head(number, custom_id), one_line(told))
    body = encode(error_body(error.message, status=error.status, code=error.code))
    return b'%b,"response":{"status_code":%d,"request_id":%b,"body":%b},"error":null}\n' % (
        _head(number, custom_id),
        error.status,
        encode(request_id),
        one_line(body),
    )


_NEVER_RUN: dict[NeverRun, str] = {
    "batch_cancelled": "Not run: the batch was cancelled",
    "batch_expired": "Not run: the completion window closed first",
    "batch_failed": "Not run: the batch failed",
}


_NOT_AGAIN: dict[NeverRun, str] = {
    "batch_cancelled": "Cancelled before another try",
    "batch_expired": "The completion window closed before another try",
    "batch_failed": "The batch failed before another try",
}


def never_run(code: NeverRun, *, tried: bool = False) -> ResultError:
    """The error of a request that its batch's end left unrun; `tried` when only another try was."""
    return ResultError(code=code, message=(_NOT_AGAIN if tried else _NEVER_RUN)[code])


def _head(number: int, custom_id: str) -> bytes:
    return b'{"id":"%b","custom_id":%b' % (result_id(number).encode(), one_line(encode(custom_id)))
