"""What gives an error OpenAI's `type`, and the body and headers around it."""

from __future__ import annotations

import msgspec

from ebbtide.dialects.statuses import INTERNAL, is_internal, retry_headers, status_of
from ebbtide.errors import EbbtideError

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}


class ErrorDetail(msgspec.Struct, frozen=True, gc=False):
    message: str
    type: str
    param: str | None
    code: str | int


class ErrorBody(msgspec.Struct, frozen=True, gc=False):
    """`{"error": {"message", "type", "param", "code"}}`; `code` is the HTTP status where no string code is named."""

    error: ErrorDetail


def type_of(status: int) -> str:
    """OpenAI's word for the kind of error behind an HTTP status."""
    if status >= 500:
        return "server_error"
    return _TYPES.get(status, "invalid_request_error")


def error_body(message: str, *, status: int, code: str | None = None, param: str | None = None) -> ErrorBody:
    """The error object for `status`."""
    return ErrorBody(ErrorDetail(message=message, type=type_of(status), param=param, code=code or status))


def render_error(error: EbbtideError) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower-case names, content-type included) and body of the answer that tells `error`.

    A kind that is not the caller's affair becomes a 500 that says nothing about it.
    """
    status = status_of(error)
    if is_internal(error):
        body = error_body(INTERNAL, status=status)
    else:
        body = error_body(error.message, status=status, code=error.code, param=error.param)
    return status, {"content-type": "application/json", **retry_headers(error)}, msgspec.json.encode(body)


def error_event(error: EbbtideError) -> bytes:
    """The event that tells a client in mid-stream what went wrong; its SDK raises on it."""
    return b"data: " + render_error(error)[2] + b"\n\n"
