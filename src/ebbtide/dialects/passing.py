"""A server's stream of events on its way to a caller who speaks the same form: the course of it, whatever the form."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.dialects.pieces import MALFORMED
from ebbtide.dialects.sse import Events
from ebbtide.dialects.values import UpstreamError, Usage


class EventPasser:
    """Bytes in, whole events out, each with its blank line, lines ended by `\\n`; a form says in `render` what becomes
    of one.

    `render` sets `usage`, `done`, `error` and its `status` as they become known. After `error` nothing follows, nor is
    the event passed on that set it: the caller's form then writes the end.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.done = False
        self.error: UpstreamError | None = None
        self.status = 502
        self._events = Events()

    def render(self, event: bytes) -> bytes:
        """What the caller gets of an event, which has no blank line; nothing where it is kept back."""
        raise NotImplementedError

    def feed(self, chunk: bytes) -> list[bytes]:
        """What `chunk` completes."""
        if self.error is not None:
            return []
        rendered = self._render_all(self._events.feed(chunk))
        if self._events.is_overfull and self.error is None:
            self.error = UpstreamError(MALFORMED)
        return rendered

    def close(self) -> list[bytes]:
        """The last event, where its blank line was left out. To be called once, when the bytes end."""
        return [] if self.error is not None else self._render_all([self._events.close()])

    def _render_all(self, events: Sequence[bytes]) -> list[bytes]:
        rendered = []
        for event in events:
            told = self.render(event.strip(b"\n"))
            if self.error is not None:
                break
            if told:
                rendered.append(told)
        return rendered
