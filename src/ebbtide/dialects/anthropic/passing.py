"""Answers and streams of a server that speaks Messages itself, on their way to a caller who does: they keep their
bytes, bar the model's name.
"""

from __future__ import annotations

import msgspec

from ebbtide.dialects.anthropic.errors import error_event
from ebbtide.dialects.anthropic.responses import ERROR_STATUSES, error_of, usage_of
from ebbtide.dialects.pieces import MALFORMED
from ebbtide.dialects.sse import Events, data_of
from ebbtide.dialects.values import Answer, MalformedAnswer, UpstreamError, Usage, members_replaced, one_line
from ebbtide.errors import EbbtideError

_decode = msgspec.json.Decoder(dict[str, object]).decode


class _Kind(msgspec.Struct):
    type: str


_decode_kind = msgspec.json.Decoder(_Kind).decode


def pass_answer(body: bytes, model: str) -> Answer:
    """A message, its model named as the caller did. Raises MalformedAnswer."""
    try:
        answer = _decode(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"Not valid JSON: {error}") from None
    if "model" in answer and answer["model"] != model:
        body = members_replaced(body, {"model": model})
    failed = None if "content" in answer else error_of(answer)[0]
    return Answer(one_line(body), usage_of(answer.get("usage")), failed)


def pass_count(body: bytes, model: str) -> Answer:
    """A count of tokens, which costs nothing. Raises MalformedAnswer."""
    answer = pass_answer(body, model)
    if answer.error is None and b'"input_tokens"' not in body:
        raise MalformedAnswer("No count")
    return Answer(answer.body, Usage(0, 0, 0, 0), answer.error)


class MessageStream:
    """Events passed on, whole and one by one. `usage` is set once the last counts came, `done` by message_stop.

    An error event is not passed on, and no event follows: the caller ends the stream in its own words.
    """

    def __init__(self, model: str) -> None:
        self.usage: Usage | None = None
        self.done = False
        self.error: UpstreamError | None = None
        self.status = 502
        self._model = model
        self._events = Events()
        self._counts: dict[str, object] = {}

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes, each with its blank line."""
        if self.error is not None:
            return []
        passed = self._passed(self._events.feed(chunk))
        if self._events.is_overfull and self.error is None:
            self.error = UpstreamError(MALFORMED)
        return passed

    def close(self) -> list[bytes]:
        """The last event, where its blank line was left out."""
        return [] if self.error is not None else self._passed([self._events.close()])

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        """The end of a stream that broke."""
        return error_event(error, request_id)

    def _passed(self, events: list[bytes]) -> list[bytes]:
        passed = []
        for event in events:
            told = self._event(event.strip(b"\n"))
            if self.error is not None:
                break
            if told:
                passed.append(told + b"\n\n")
        return passed

    def _event(self, event: bytes) -> bytes:
        data = data_of(event)
        if not data or self.done:
            return b"" if self.done else event
        try:
            kind = _decode_kind(data).type
            if kind == "message_start":
                return self._start(_decode(data))
            if kind in ("message_delta", "error"):
                self._learn(_decode(data))
        except (ValueError, RecursionError):
            self.error = UpstreamError(MALFORMED)
            return b""
        self.done = kind == "message_stop"
        return event

    def _start(self, said: dict[str, object]) -> bytes:
        message = msgspec.convert(said.get("message"), dict[str, object])
        self._count(message.get("usage"))
        told = {**said, "message": {**message, "model": self._model}}
        return b"event: message_start\ndata: " + msgspec.json.encode(told)

    def _learn(self, said: dict[str, object]) -> None:
        if said.get("type") == "error":
            error, kind = error_of(said)
            self.error = error or UpstreamError("The upstream answered with an error")
            self.status = ERROR_STATUSES.get(kind or "", 502)
            return
        self._count(said.get("usage"))
        self.usage = usage_of(self._counts)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._counts.update({name: count for name, count in usage.items() if count is not None})
