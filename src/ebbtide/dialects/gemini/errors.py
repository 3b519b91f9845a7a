"""What gives an error Google's form: `{"error": {"code", "message", "status"[, "details"]}}`.

https://google.aip.dev/193. Details tell when to come back, where that is known, and nothing else; errors within a batch
have none: the SDKs' batch types take none that are objects.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from ebbtide.dialects.statuses import INTERNAL, is_internal, retry_headers, status_of
from ebbtide.errors import EbbtideError

_WORDS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    408: "DEADLINE_EXCEEDED",
    409: "FAILED_PRECONDITION",
    410: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
_NUMBERS: Final = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}


class RetryInfo(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """When to come back: seconds, as in `"30s"`."""

    type: str = msgspec.field(default="type.googleapis.com/google.rpc.RetryInfo", name="@type")
    retry_delay: str


class Status(msgspec.Struct, frozen=True, gc=False):
    """What went wrong; `code` is an HTTP status."""

    code: int
    message: str
    status: str
    details: tuple[RetryInfo, ...] | UnsetType = UNSET


class GoogleError(msgspec.Struct, frozen=True, gc=False):
    error: Status


def word_for(status: int) -> str:
    """The API's word for an HTTP status."""
    return _WORDS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")


def number_for(status: int) -> int:
    """The same as a number of google.rpc.Code, which errors within a batch tell."""
    return _NUMBERS[word_for(status)]


def render_error(error: EbbtideError, request_id: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower-case names, content-type included) and body of the answer that tells `error`."""
    status = status_of(error)
    message = INTERNAL if is_internal(error) else error.message
    headers = retry_headers(error)
    wait = headers.get("retry-after")
    details = UNSET if wait is None else (RetryInfo(retry_delay=f"{wait}s"),)
    body = msgspec.json.encode(GoogleError(Status(status, message, word_for(status), details)))
    return status, {"content-type": "application/json", **headers}, body


def error_event(error: EbbtideError, request_id: str) -> bytes:
    """The event that ends a stream with what went wrong; the SDKs raise on it."""
    return b"data: %b\n\n" % render_error(error, request_id)[2]
