"""What goes into a call and what comes out of it: plain values, and the one rule about which failures are retried.

A call ends in Answered or in Failed; nothing is raised but a cancellation. No I/O here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from ebbtide.catalog.model import Model
from ebbtide.dialects.values import Target, Usage, sum_usages
from ebbtide.errors import UpstreamFailed

Source = Literal["interactive", "batch"]

FailureKind = Literal[
    "no_route",  # nothing is configured that may take the call
    "refused",  # no connection: refused, no such host, TLS
    "connect_timeout",  # the connection did not open in time: nothing was sent
    "reset",  # the connection broke after the request went out
    "timeout",  # the answer was not whole when the time for all of it was over
    "first_byte_timeout",  # the answer did not begin in time
    "gap_timeout",  # the answer began, and then nothing came for too long
    "status",  # an HTTP error, or an error body under status 200
    "model_queued",  # a deployment waits for its hardware: not a failure of the model
    "redirect",  # sent elsewhere, which is never followed
    "unsupported",  # the route cannot carry a parameter of the request: nothing was sent
    "malformed",  # an answer that is not JSON in UTF-8, or not an answer
    "unsayable",  # an answer that the caller's form has no place for: the model's doing
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
    """Seconds: to open a connection, for the whole call over all its routes, between two reads of a stream, and until
    an answer begins (of a stream: its first event).

    None is no limit. The defaults are a batched request's; an interactive one's are settings, a model's its own.
    """

    connect: float = 10.0
    total: float = 600.0
    gap: float | None = None
    first_byte: float | None = None


class Call(msgspec.Struct, frozen=True):
    """One request to a model. `body` is what the client sent; `requested` is the model's name as the client wrote it.

    `max_bytes` limits the answer; `timeouts` replaces the dispatcher's own; `asks_usage` whether the caller of a
    stream wants to see its usage frame; `caller` names whose conversations stay on one route, None for none; `version`
    and `beta` are the caller's headers of the Messages API.
    """

    target: Target
    model: Model
    body: bytes
    requested: str
    source: Source
    max_bytes: int = DEFAULT_MAX_BYTES
    timeouts: Timeouts | None = None
    asks_usage: bool = False
    caller: str | None = None
    version: str | None = None
    beta: str | None = None


class Others(msgspec.Struct, frozen=True, gc=False):
    """The upstream calls that were made for a request beside the one its outcome tells of.

    `used` is what they told they used; `unknown` whether the charge of any is not known.
    """

    calls: int = 0
    used: tuple[Usage, ...] = ()
    unknown: bool = False


NO_OTHERS = Others()


class Answered(msgspec.Struct, frozen=True):
    """A good answer: one line of JSON with `model` as the caller named it.

    `usage` is None when the upstream did not report it: the cost is unknown then, never zero.
    """

    body: bytes
    usage: Usage | None
    route: str
    status: int = 200
    others: Others = NO_OTHERS


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no answer. `message` is safe to show; `status` is the HTTP status behind it, else 502, 503 or 504.

    `retry_after` is seconds as the upstream asked. `sent` tells whether any upstream may have seen the request.
    `begun` whether part of a stream had come. `route` is None when none was chosen. `upstream_code` and `param` come
    from the upstream's own error.
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
    others: Others = NO_OTHERS
    begun: bool = False

    @property
    def cost_unknown(self) -> bool:
        """Whether this upstream may have run and charged the request without our learning what."""
        return self.sent and self.usage is None and (self.begun or self.kind in _LOST)


Outcome = Answered | Failed

TIMED_OUT = frozenset({"timeout", "first_byte_timeout", "gap_timeout"})
_LOST = TIMED_OUT | {"reset", "malformed", "unsayable", "too_large", "internal"}
_RETRYABLE_KINDS = frozenset({"refused", "connect_timeout", "reset", "model_queued"})
_NAMED_CODES = frozenset({"timeout", "model_not_found", "batch_route_unavailable", "result_too_large"})
_ILL_KINDS = frozenset({"refused", "connect_timeout", "reset", "redirect", "malformed"})
_RETRYABLE_STATUSES = frozenset({408, 425, 429})
_TRIPPING_STATUSES = frozenset({401, 407, 408, 429})
_REFUSALS = frozenset({401, 429})


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


def used(outcome: Outcome) -> Usage | None:
    """What all upstream calls of a request used, as far as they told; None when none did."""
    if not outcome.others.used:
        return outcome.usage
    return sum_usages((outcome.usage, *outcome.others.used) if outcome.usage else outcome.others.used)


def charge_unknown(outcome: Outcome) -> bool:
    """Whether what the request cost is not known: one of its upstream calls may have been charged without telling."""
    if outcome.others.unknown:
        return True
    return outcome.cost_unknown if isinstance(outcome, Failed) else outcome.usage is None


def speaks_ill(failed: Failed) -> bool:
    """Whether the failure says something about the model's health: a runaway request or a refusal does not."""
    if failed.kind in _ILL_KINDS:
        return True
    return failed.kind == "status" and failed.status >= 500


def trips(failed: Failed) -> bool:
    """Whether the failure counts against its route's circuit: it says that the route, not the request, is at fault."""
    if failed.kind in _ILL_KINDS or failed.kind == "first_byte_timeout":
        return True
    return failed.kind == "status" and (failed.status >= 500 or failed.status in _TRIPPING_STATUSES)


def began_nothing(failed: Failed) -> bool:
    """Whether the upstream certainly did not begin to generate: it was not reached, or it refused."""
    return not failed.sent or failed.kind == "model_queued" or failed.status in _REFUSALS


def may_fail_over(failed: Failed, source: Source) -> bool:
    """Whether another route may be tried at once.

    A time that ran out on a batched request is final; where a person waits, a server that does not begin is left.
    """
    if failed.kind == "first_byte_timeout":
        return source == "interactive"
    return is_retryable(failed) or failed.kind == "unsupported" or (failed.kind == "status" and failed.status == 401)


def as_error(failed: Failed) -> UpstreamFailed:
    """The failure as an interactive caller sees it. A refusal of the gateway's own key is not the caller's 401."""
    status = 502 if failed.status == 401 else failed.status
    code = failed.upstream_code
    if code is None and failed.code in _NAMED_CODES:
        code = failed.code
    return UpstreamFailed(failed.message, status=status, code=code, param=failed.param, retry_after=failed.retry_after)
