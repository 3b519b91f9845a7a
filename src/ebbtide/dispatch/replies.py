"""Judges what came back: an answer that can be stored and shown, or a failure with its kind, code and safe words."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import msgspec

from ebbtide.catalog.model import Route
from ebbtide.clock import Clock
from ebbtide.dialects.openai.responses import status_told
from ebbtide.dialects.values import MalformedAnswer, UnsayableAnswer, UpstreamError, Usage
from ebbtide.dispatch.outcome import Answered, Call, ErrorCode, Failed, Outcome
from ebbtide.dispatch.receive import Broken, Reply
from ebbtide.dispatch.retry_after import queued_seconds, retry_seconds
from ebbtide.dispatch.scrub import safe_code, scrub
from ebbtide.dispatch.translation import answer_of, error_of, usage_of
from ebbtide.errors import InvalidRequest

# Any other 4xx is invalid_request, any other status upstream_error.
_CODES: dict[int, ErrorCode] = {
    401: "upstream_error",  # the gateway's own key is refused: nothing the caller did
    403: "forbidden",
    404: "model_not_found",
    408: "upstream_error",
    425: "upstream_error",
    429: "rate_limited",
    503: "service_unavailable",
    504: "timeout",
}

_BROKEN: dict[str, tuple[int, ErrorCode, str]] = {
    "refused": (503, "service_unavailable", "The model's server cannot be reached"),
    "connect_timeout": (503, "service_unavailable", "The model's server cannot be reached in time"),
    "reset": (502, "upstream_error", "The connection to the model's server broke before the whole answer had come"),
    "timeout": (504, "timeout", "The request ran out of time before the whole answer had come"),
    "first_byte_timeout": (504, "timeout", "The model's server did not begin to answer in time"),
    "gap_timeout": (504, "timeout", "The answer began, and then nothing more of it came in time"),
    "malformed": (
        502,
        "upstream_error",
        "The model's server gave an answer that cannot be read",
    ),
    "too_large": (502, "result_too_large", "The answer is larger than one request may store"),
}

_REFUSED_KEY = "The model's server did not accept the gateway's credentials"
_PARAM = re.compile(r"[A-Za-z0-9_.\[\]-]{1,128}")


class Asked(msgspec.Struct, frozen=True):
    """Who was asked, and for what."""

    call: Call
    route: Route


def judge(reply: Reply | Broken, asked: Asked, clock: Clock) -> Outcome:
    """The outcome of one upstream call. The clock is for dates in Retry-After."""
    if isinstance(reply, Broken):
        return judge_broken(reply, asked)
    if reply.status == 200:
        return _judge_ok(reply, asked, clock)
    if reply.status >= 400:
        return _judge_status(reply, asked, clock)
    if reply.status >= 300:
        message = "The model's server answered with a redirect, which is not followed"
        return Failed("redirect", 502, "upstream_error", message, sent=True, route=asked.route.id)
    message = f"The model's server answered with status {reply.status} instead of an answer"
    return Failed("malformed", 502, "upstream_error", message, sent=True, route=asked.route.id)


def judge_broken(reply: Broken, asked: Asked, usage: Usage | None = None) -> Failed:
    """The failure that a broken call is; `usage` where a charge is known all the same."""
    status, code, message = _BROKEN[reply.kind]
    return Failed(reply.kind, status, code, message, sent=reply.sent, usage=usage, route=asked.route.id)


def judge_told(error: UpstreamError, status: int, asked: Asked, usage: Usage | None = None) -> Failed:
    """The failure that an upstream told in words, under the HTTP status that stands for it."""
    theirs = 400 <= status < 500 and status != 401
    return Failed(
        kind="timeout" if status == 504 else "status",
        status=status,
        code=_CODES.get(status, "invalid_request" if theirs else "upstream_error"),
        message=_REFUSED_KEY if status == 401 else scrub(error.message, asked.route, asked.call.requested),
        sent=True,
        route=asked.route.id,
        usage=usage,
        param=error.param if theirs and error.param and _PARAM.fullmatch(error.param) else None,
        upstream_code=safe_code(error.code) if theirs else None,
    )


def unsupported(error: InvalidRequest, asked: Asked) -> Failed:
    """The failure that a request is which the route's server has no words for: nothing was sent."""
    return Failed(
        "unsupported",
        400,
        "invalid_request",
        error.message,
        sent=False,
        route=asked.route.id,
        param=error.param,
        upstream_code=error.code,
    )


def _judge_ok(reply: Reply, asked: Asked, clock: Clock) -> Outcome:
    call = asked.call
    try:
        answer = answer_of(call, asked.route, reply.body, int(clock.now().timestamp()))
    except UnsayableAnswer as error:
        usage = _salvaged_usage(asked, reply.body)
        return Failed("unsayable", 502, "upstream_error", str(error), sent=True, route=asked.route.id, usage=usage)
    except MalformedAnswer:
        return judge_broken(Broken("malformed", sent=True), asked, _salvaged_usage(asked, reply.body))
    if answer.error is not None:
        return judge_told(answer.error, status_told(msgspec.json.decode(reply.body)), asked, answer.usage)
    return Answered(answer.body, answer.usage, asked.route.id)


def _judge_status(reply: Reply, asked: Asked, clock: Clock) -> Failed:
    told = error_of(asked.call, asked.route, reply.body, reply.status)
    error = told.error
    failed = judge_told(error, told.status, asked)
    if reply.status == 503 and error.code == "model_queued":
        wait = queued_seconds(reply.retry_after, clock.now())
        return replace(failed, kind="model_queued", retry_after=wait, upstream_code="model_queued")
    return replace(failed, retry_after=retry_seconds(reply.retry_after, clock.now()) or told.retry_after)


def _salvaged_usage(asked: Asked, body: bytes) -> Usage | None:
    """What an unusable answer says it used. The lenient parser on purpose: a known charge stays recorded."""
    try:
        answer = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return usage_of(asked.call, asked.route, answer) if isinstance(answer, dict) else None
