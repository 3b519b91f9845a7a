"""What gives an error the Messages API's `type`, its body and its headers.

https://docs.anthropic.com/en/api/errors; the header `request-id` stands on every answer, also on good ones.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ebbtide.dialects.statuses import INTERNAL, is_internal, retry_headers, status_of
from ebbtide.errors import EbbtideError

_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessagesErrorDetail(msgspec.Struct, frozen=True, gc=False):
    type: str
    message: str


class MessagesError(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`{"type": "error", "error": {"type", "message"}, "request_id"}`."""

    type: str = "error"
    error: MessagesErrorDetail
    request_id: str


def type_of(status: int) -> str:
    """The API's word for the kind of error behind an HTTP status."""
    if status >= 500:
        return _TYPES.get(status, "api_error")
    return _TYPES.get(status, "invalid_request_error")


def render_error(error: EbbtideError, request_id: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower-case names, content-type included) and body of the answer that tells `error`."""
    status = status_of(error)
    message = INTERNAL if is_internal(error) else error.message
    headers = {"content-type": "application/json", **retry_headers(error)}
    return (
        status,
        headers,
        msgspec.json.encode(MessagesError(error=MessagesErrorDetail(type_of(status), message), request_id=request_id)),
    )


def error_event(error: EbbtideError, request_id: str) -> bytes:
    """The event that ends a stream with what went wrong."""
    return b"event: error\ndata: %b\n\n" % render_error(error, request_id)[2]
