"""Responses of a server that speaks them itself: read for usage and errors, the model named as the caller named it.

All else passes untouched. A response that only stands in a queue is no answer: the gateway keeps none to be asked for
later. Nothing in usage or errors can raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ebbtide.dialects.openai.responses import error_of, read_object
from ebbtide.dialects.openai.responses_api.answers import failed
from ebbtide.dialects.openai.responses_api.stream import event
from ebbtide.dialects.pieces import EventReader
from ebbtide.dialects.told import clean, count_of, detail_of
from ebbtide.dialects.values import Answer, UpstreamError, Usage, members_replaced, one_line
from ebbtide.errors import EbbtideError

_decode = msgspec.json.Decoder().decode
_WAITING: Final = frozenset({"queued", "in_progress"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILURES: Final = {"rate_limit_exceeded": 429, "invalid_prompt": 400}


class _Kind(msgspec.Struct):
    type: str
    sequence_number: int | None = None


_decode_kind = msgspec.json.Decoder(_Kind).decode


def without_store(body: bytes) -> bytes:
    """A checked request that says not to be stored, where it left that out: nobody could read what is kept."""
    if msgspec.json.decode(body, type=_Storing).store is False:
        return body
    return members_replaced(body, {"store": False})


class _Storing(msgspec.Struct):
    store: bool | None = None


def pass_answer(body: bytes, model: str) -> Answer:
    """An upstream's 200 with the model named as the caller did, and what it used. Raises MalformedAnswer."""
    answer = read_object(body)
    named = body if answer.get("model") == model else members_replaced(body, {"model": model})
    error = error_of(answer)
    if error is None and answer.get("status") in _WAITING:
        error = UpstreamError("The upstream queued the response instead of answering")
    return Answer(one_line(named), usage_of(answer.get("usage")), error)


def usage_of(usage: object) -> Usage | None:
    """The decoded `usage` as tokens; None unless the counts that decide the price are whole and in range."""
    if not isinstance(usage, dict):
        return None
    given, made = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    if given is None or made is None:
        return None
    details = usage.get("input_tokens_details")
    cached, written = detail_of(details, "cached_tokens"), detail_of(details, "cache_write_tokens")
    reasoning = detail_of(usage.get("output_tokens_details"), "reasoning_tokens")
    cached = min(cached, given)
    return Usage(given, cached, made, min(reasoning, made), min(written, given - cached))


def failure_of(said: dict[str, Any]) -> tuple[UpstreamError, int]:
    """The error of a failed response, or of an event that tells one, and the HTTP status that it amounts to."""
    response = said.get("response")
    error = (response.get("error") if isinstance(response, dict) else None) or said.get("error") or said
    message = error.get("message") if isinstance(error, dict) else error
    code = error.get("code") if isinstance(error, dict) else None
    text = clean(message) if isinstance(message, str) else ""
    code = code[:200] if isinstance(code, str) and code else None
    return UpstreamError(text or "The upstream's response failed", code), _FAILURES.get(code or "", 502)


class PassedEvents(EventReader[bytes]):
    """Turns an upstream's bytes into the events the caller gets.

    `usage` and `done` come with the event that ends a response; `error` is set by one that fails and by a malformed
    one, under `status`: neither is passed on, no event follows, and the gateway's own `fail` ends the stream.
    """

    def __init__(self, model: str) -> None:
        super().__init__()
        self._model = model
        self._response: dict[str, Any] = {}
        self._sequence = 0

    def read(self, data: bytes) -> Sequence[bytes]:
        if data == b"[DONE]":
            return ()
        shown = self._event(data)
        return () if self.error is not None else (shown,)

    def fail(self, error: EbbtideError, _: str) -> bytes:
        """The end of a stream that broke."""
        told = {**self._response, **failed(error)}
        return event("response.failed", sequence_number=self._sequence, response=told)

    def _event(self, data: bytes) -> bytes:
        if b'"response"' not in data and b'"error"' not in data:
            told = _decode_kind(data)
            self._count(told.sequence_number)
            return _framed(told.type, data)
        said = _decode(data)
        kind = said["type"] if isinstance(said.get("type"), str) else "error"
        if kind in ("error", "response.failed"):
            self.error, self.status = failure_of(said)
            return b""
        self._count(said.get("sequence_number"))
        return self._whole(kind, said, data) if isinstance(said.get("response"), dict) else _framed(kind, data)

    def _whole(self, kind: str, said: dict[str, Any], data: bytes) -> bytes:
        """An event that shows the response."""
        self._response = response = {**said["response"], "model": self._model}
        if kind in _ENDS:
            self.done = True
            self.usage = usage_of(response.get("usage"))
        if said["response"].get("model") != self._model:
            data = members_replaced(data, {"response": response})
        return _framed(kind, data)

    def _count(self, number: object) -> None:
        if isinstance(number, int):
            self._sequence = max(self._sequence, number + 1)


def _framed(kind: str, data: bytes) -> bytes:
    # An event's data cannot hold a line break, nor a name one.
    return b"event: %b\ndata: %b\n\n" % (kind.replace("\n", " ").encode(), data.replace(b"\n", b" "))
