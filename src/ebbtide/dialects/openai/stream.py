"""A chat completion's stream: server-sent events taken apart, read for usage, named as the caller named the model."""

from __future__ import annotations

import msgspec

from ebbtide.dialects.openai.completions import DONE
from ebbtide.dialects.openai.errors import error_event
from ebbtide.dialects.openai.responses import error_of, status_told, usage_of
from ebbtide.dialects.pieces import MALFORMED
from ebbtide.dialects.sse import Events
from ebbtide.dialects.values import UpstreamError, Usage, members_replaced
from ebbtide.errors import EbbtideError

_decode = msgspec.json.Decoder().decode


class ChatStream:
    """Turns an upstream's bytes into the events the caller gets, whole and one by one.

    `usage` is the last credible one seen. `done` is whether the end was: `[DONE]`, which some servers leave out, or the
    `finish_reason` of every choice before the bytes end; else the stream was cut. `error` is set by an upstream's
    error event and by a malformed one: neither is passed on, and no event follows. `fail` then writes the end.
    """

    def __init__(self, model: str, *, show_usage: bool) -> None:
        self.usage: Usage | None = None
        self.done = False
        self.error: UpstreamError | None = None
        self.status = 502
        self._model = model
        self._show_usage = show_usage
        self._named = msgspec.json.encode(model)
        self._upstream_name: bytes | None = None
        self._begun: set[str] = set()
        self._finished: set[str] = set()
        self._events = Events()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes, each with its blank line, lines ended by `\\n`."""
        if self.error is not None:
            return []
        rendered = self._rendered(self._events.feed(chunk))
        self._check_size()
        return rendered

    def close(self) -> list[bytes]:
        """The last event where the upstream left out its blank line, and the end where it left out that. To be called
        once, when the bytes end.
        """
        if self.error is not None:
            return []
        rendered = self._rendered([self._events.close()])
        if not self.done and self.error is None and self._begun and self._begun == self._finished:
            self.done = True
            rendered.append(DONE)
        return rendered

    def fail(self, error: EbbtideError, _: str) -> bytes:
        """The event that ends a stream which broke."""
        return error_event(error)

    def _rendered(self, events: list[bytes]) -> list[bytes]:
        rendered = []
        for event in events:
            told = self._event(event.strip(b"\n"))
            if self.error is not None:
                break
            if told:
                rendered.append(told)
        return rendered

    def _check_size(self) -> None:
        if self._events.is_overfull and self.error is None:
            self.error = UpstreamError(MALFORMED)

    def _event(self, event: bytes) -> bytes:
        if event.startswith(b"data: {") and b"\n" not in event:
            return self._data(event[6:])
        lines = event.split(b"\n")
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        others = [line for line in lines if line and line != b"data" and not line.startswith(b"data:")]
        before = b"".join(line + b"\n" for line in others)
        payload = b"\n".join(data)
        if not payload:
            return before and before + b"\n"
        if payload == b"[DONE]":
            self.done = True
            return before + DONE
        told = self._data(payload)
        return told and before + told

    def _data(self, payload: bytes) -> bytes:
        # The common chunk: the model's name stands where it stood in the chunk before, and nothing has to be read.
        known = self._upstream_name
        if known is not None and payload.count(known) == 1 and not _tells_more(payload):
            return b"data: " + payload.replace(known, b'"model":' + self._named) + b"\n\n"
        return self._read(payload)

    def _read(self, payload: bytes) -> bytes:
        try:
            chunk = _decode(payload)
        except (ValueError, RecursionError):
            chunk = None
        self.error = error_of(chunk) if isinstance(chunk, dict) else UpstreamError(MALFORMED)
        if self.error is not None:
            self.status = status_told(chunk)
            return b""
        usage = chunk.get("usage")
        if usage is not None:
            self.usage = usage_of("chat", usage) or self.usage
            if chunk.get("choices") == [] and not self._show_usage:
                return b""
        self._note_choices(chunk.get("choices"))
        if isinstance(chunk.get("model"), str):
            self._learn(payload, chunk["model"])
            if chunk["model"] != self._model:
                payload = members_replaced(payload, {"model": self._model})
        # An event's data cannot hold a line break.
        return b"data: " + payload.replace(b"\n", b" ") + b"\n\n"

    def _note_choices(self, choices: object) -> None:
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            index = str(choice.get("index", 0))
            self._begun.add(index)
            if choice.get("finish_reason"):
                self._finished.add(index)

    def _learn(self, payload: bytes, upstream_name: str) -> None:
        """Remember how the upstream spells its model member.

        Inside a string its quotes would be escaped, so these bytes can only be a member.
        """
        name = msgspec.json.encode(upstream_name)
        spellings = (b'"model":' + name, b'"model": ' + name)
        self._upstream_name = next((spelling for spelling in spellings if spelling in payload), None)


def _tells_more(payload: bytes) -> bool:
    """Whether a chunk may hold what has to be read: an error, usage, where a choice begins (its role) or ends."""
    return (
        b'"error"' in payload
        or b'"role"' in payload
        or _tells(b'"usage"', payload)
        or _tells(b'"finish_reason"', payload)
    )


def _tells(member: bytes, payload: bytes) -> bool:
    told = payload.count(member)
    return told > 0 and told > payload.count(member + b":null") + payload.count(member + b": null")
