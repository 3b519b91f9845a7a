"""What goes into a call and what comes out of it: plain values, and the one rule about which failures are retried.

A call ends in Answered or in Failed; nothing is raised but a cancellation. No I/O here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from ebbtide.catalog.model import Model
from ebbtide.dialects.values import Target, Usage
from ebbtide.errors import UpstreamFailed

Source = Literal["interactive", "batch"]

FailureKind = Literal[
    "no_route",  # nothing is configured that may take the call
    "refused",  # no connection: refused, no such host, TLS
    "connect_timeout",  # the connection did not open in time: nothing was sent
    "reset",  # the connection broke after the request went out
    "timeout",  # the answer did not come, or not whole, in time
    "status",  # an HTTP error, or an error body under status 200
    "model_queued",  # a deployment waits for its hardware: not a failure of the model
    "redirect",  # sent elsewhere, which is never followed
    "malformed",  # an answer that is not JSON in UTF-8, or not an answer
    "too_large",  # an answer over the limit
    "internal",  # a mistake of the gateway's own
]

ErrorCode = Literal[
    "invalid_request",
    "model_not_found",
    "forbidden",
    "rate_limited",
    "timeout",
    "service_unavailable",
    "upstream_error",
    "result_too_large",
    "batch_route_unavailable",
]

DEFAULT_MAX_BYTES = 64 * 1024 * 1024


STREAM_GAP_SECONDS = 300.0


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds: to open a connection, for the whole call over all its routes, and between two reads of a stream.

    None is no limit. The defaults are a batched request's; an interactive one's are settings.
    """

    connect: float = 10.0
    total: float = 600.0
    gap: float | None = None


class Call(msgspec.Struct, frozen=True):
    """One request to a model. `body` is what the client sent; `requested` is the model's name as the client wrote it.

    `max_bytes` limits the answer; `timeouts` replaces the dispatcher's own; `asks_usage` whether the caller of a
    stream wants to see its usage frame.
    """

    target: Target
    model: Model
    body: bytes
    requested: str
    source: Source
    max_bytes: int = DEFAULT_MAX_BYTES
    timeouts: Timeouts | None = None
    asks_usage: bool = False


class Answered(msgspec.Struct, frozen=True):
    """A good answer: one line of JSON with `model` as the caller named it.

    `usage` is None when the upstream did not report it: the cost is unknown then, never zero.
    """

    body: bytes
    usage: Usage | None
    route: str
    status: int = 200


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no answer. `message` is safe to show; `status` is the HTTP status behind it, else 502, 503 or 504.

    `retry_after` is seconds as the upstream asked. `sent` tells whether any upstream may have seen the request.
    `route` is None when none was chosen. `upstream_code` and `param` come from the upstream's own error.
    """

    kind: FailureKind
    status: int
    code: ErrorCode
    message: str
    sent: bool
    route: str | None = None
    retry_after: float | None = None
    usage: Usage | None = None
    param: str | None = None
    upstream_code: str | None = None

    @property
    def cost_unknown(self) -> bool:
        """Whether an upstream may have run and charged the request without our learning what."""
        return self.sent and self.usage is None and self.kind in _LOST


Outcome = Answered | Failed

_LOST = frozenset({"reset", "timeout", "malformed", "too_large", "internal"})
_RETRYABLE_KINDS = frozenset({"refused", "connect_timeout", "reset", "model_queued"})
_NAMED_CODES = frozenset({"timeout", "model_not_found", "batch_route_unavailable", "result_too_large"})
_ILL_KINDS = frozenset({"refused", "connect_timeout", "reset", "redirect", "malformed"})
_RETRYABLE_STATUSES = frozenset({408, 425, 429})


def is_retryable(failed: Failed) -> bool:
    """Whether the same request may succeed later: the one place that decides what is repeated.

    Connections that broke, 408, 425, 429 and 5xx may; timeouts (504 is one), answers that cannot be read, redirects
    and all other statuses may not.

    Whoever repeats treats `model_queued` apart: it uses up no attempt.
    """
    if failed.kind in _RETRYABLE_KINDS:
        return True
    if failed.kind == "no_route":
        return failed.status == 503
    if failed.kind != "status":
        return False
    if failed.status in _RETRYABLE_STATUSES:
        return True
    return failed.status >= 500 and failed.status != 504


def speaks_ill(failed: Failed) -> bool:
    """Whether the failure says something about the model's health: a runaway request or a refusal does not."""
    if failed.kind in _ILL_KINDS:
        return True
    return failed.kind == "status" and failed.status >= 500


def may_fail_over(failed: Failed) -> bool:
    """Whether another route may be tried at once: the request never left, or the upstream refused to begin it."""
    if not failed.sent:
        return failed.kind != "no_route"
    return failed.kind == "model_queued" or (failed.kind == "status" and failed.status in (401, 429))


def as_error(failed: Failed) -> UpstreamFailed:
    """The failure as an interactive caller sees it. A refusal of the gateway's own key is not the caller's 401."""
    status = 502 if failed.status == 401 else failed.status
    code = failed.upstream_code
    if code is None and failed.code in _NAMED_CODES:
        code = failed.code
    return UpstreamFailed(failed.message, status=status, code=code, param=failed.param, retry_after=failed.retry_after)
