"""Reading a server's stream of events, whatever its form: the course of it, and what it tells besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from ebbtide.dialects.conversation import Piece
from ebbtide.dialects.sse import Events, data_of
from ebbtide.dialects.values import UpstreamError, Usage

Out = TypeVar("Out")
MALFORMED: Final = "The upstream's stream is malformed"


class EventReader(Generic[Out]):
    """Bytes in; a form says in `read` what the data of one event give.

    `read` sets `id`, `usage`, `done`, `error` and its `status` as they become known. What it raises for data that are
    not of its form makes the stream malformed. Nothing is read after `done` or `error`.
    """

    def __init__(self) -> None:
        self.id = ""
        self.usage: Usage | None = None
        self.done = False
        self.error: UpstreamError | None = None
        self.status = 502
        self._events = Events()

    def read(self, data: bytes) -> Iterable[Out]:
        """What the data of one event say."""
        raise NotImplementedError

    def feed(self, chunk: bytes) -> list[Out]:
        """What `chunk` completes."""
        if self.error is not None:
            return []
        given = self._read_all(self._events.feed(chunk))
        if self._events.is_overfull and self.error is None:
            self.error = UpstreamError(MALFORMED)
        return given

    def close(self) -> list[Out]:
        """The last event, where its blank line was left out."""
        return [] if self.error is not None else self._read_all([self._events.close()])

    def _read_all(self, events: Sequence[bytes]) -> list[Out]:
        given: list[Out] = []
        for event in events:
            data = data_of(event)
            if not data or self.done:
                continue
            try:
                given += self.read(data)
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
                self.error = UpstreamError(MALFORMED)
            if self.error is not None:
                break
        return given


class PieceReader(EventReader[Piece]):
    """Bytes in, pieces out."""
