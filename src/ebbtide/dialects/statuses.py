"""The one table that gives an error its HTTP status, and the headers that tell whether and when to try again.

They are the same in every dialect; words and shape are each dialect's own.
"""

from __future__ import annotations

import math
from typing import Final

from ebbtide.errors import (
    Conflict,
    EbbtideError,
    Forbidden,
    Gone,
    InvalidRequest,
    LimitReached,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UpstreamFailed,
)

STATUSES: Final[dict[type[EbbtideError], int]] = {
    InvalidRequest: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    MethodNotAllowed: 405,
    Conflict: 409,
    Gone: 410,
    TooLarge: 413,
    LimitReached: 429,
    Unavailable: 503,
}
INTERNAL: Final = "Something went wrong inside the gateway; its log says what"

# The official SDKs wait as long as Retry-After says only up to a minute, and then try again at their own pace.
_LONGEST_SDK_WAIT: Final = 60


def status_of(error: EbbtideError) -> int:
    """The HTTP status that tells `error`; 500 for a kind that is not the caller's affair."""
    if isinstance(error, UpstreamFailed):
        return error.status
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def is_internal(error: EbbtideError) -> bool:
    """Whether the caller is told no more than that something went wrong."""
    return status_of(error) == 500 and not isinstance(error, UpstreamFailed)


def retry_headers(error: EbbtideError) -> dict[str, str]:
    """The headers, names in lower case, that tell how to go on."""
    status, headers = status_of(error), {}
    wait = error.retry_after if isinstance(error, (LimitReached, Unavailable, UpstreamFailed)) else None
    if wait is not None:
        headers["retry-after"] = str(max(0, math.ceil(wait)))
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allowed)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    limit_that_stays = isinstance(error, LimitReached) and (wait is None or wait > _LONGEST_SDK_WAIT)
    if status == 409 or limit_that_stays:
        headers["x-should-retry"] = "false"
    return headers
