"""The one table that gives an error its HTTP status and OpenAI's `type`, and the body and headers around it."""

from __future__ import annotations

import math

import msgspec

from ebbtide.errors import (
    Conflict,
    EbbtideError,
    Forbidden,
    Gone,
    InvalidRequest,
    LimitReached,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UpstreamFailed,
)

STATUSES: dict[type[EbbtideError], int] = {
    InvalidRequest: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    Gone: 410,
    TooLarge: 413,
    LimitReached: 429,
    Unavailable: 503,
}

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}

# The official SDKs wait as long as Retry-After says only up to a minute, and then try again at their own pace.
_LONGEST_SDK_WAIT = 60

_INTERNAL = "Something went wrong inside the gateway; its log says what"


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


def status_of(error: EbbtideError) -> int:
    """The HTTP status that tells `error`; 500 for a kind that is not the caller's affair."""
    if isinstance(error, UpstreamFailed):
        return error.status
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def error_body(message: str, *, status: int, code: str | None = None, param: str | None = None) -> ErrorBody:
    """The error object for `status`."""
    return ErrorBody(ErrorDetail(message=message, type=type_of(status), param=param, code=code or status))


def render_error(error: EbbtideError) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower-case names, content-type included) and body of the answer that tells `error`.

    A kind that is not the caller's affair becomes a 500 that says nothing about it.
    """
    status = status_of(error)
    if status == 500 and not isinstance(error, UpstreamFailed):
        body = error_body(_INTERNAL, status=status)
    else:
        body = error_body(error.message, status=status, code=error.code, param=error.param)
    return status, _headers(error, status), msgspec.json.encode(body)


def _headers(error: EbbtideError, status: int) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    wait = error.retry_after if isinstance(error, (LimitReached, Unavailable, UpstreamFailed)) else None
    if wait is not None:
        headers["retry-after"] = str(max(0, math.ceil(wait)))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    limit_that_stays = isinstance(error, LimitReached) and (wait is None or wait > _LONGEST_SDK_WAIT)
    if status == 409 or limit_that_stays:
        headers["x-should-retry"] = "false"
    return headers
