"""Reading a server's stream of events, whatever its form: the course of it, and what it tells besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from ebbtide.dialects.conversation import Piece
from ebbtide.dialects.sse import Events, data_of
from ebbtide.dialects.values import UpstreamError, Usage

Read = TypeVar("Read")

MALFORMED: Final = "The upstream's stream is malformed"


class EventReader(Generic[Read]):
    """Bytes in, what is read of their events out; a form says in `read` what the data of one event give.

    `read` sets `usage`, `done`, `error` and its `status` as they become known. What it raises for data that are not of
    its form makes the stream malformed. Nothing is read after `done` or `error`. Where the bytes end before `done`,
    `is_whole` tells whether all was said even so.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.done = False
        self.error: UpstreamError | None = None
        self.status = 502
        self._events = Events()

    def read(self, data: bytes) -> Iterable[Read]:
        """What the data of one event say."""
        raise NotImplementedError

    def is_whole(self) -> bool:
        """Whether only the word that ends the stream is missing."""
        return False

    def feed(self, chunk: bytes) -> list[Read]:
        """What `chunk` completes."""
        if self.error is not None:
            return []
        given = self._read_all(self._events.feed(chunk))
        if self._events.is_overfull and self.error is None:
            self.error = UpstreamError(MALFORMED)
        return given

    def close(self) -> list[Read]:
        """The last event, where its blank line was left out. To be called once, when the bytes end."""
        if self.error is not None:
            return []
        given = self._read_all([self._events.close()])
        self.done = self.done or (self.error is None and self.is_whole())
        return given

    def _read_all(self, events: Sequence[bytes]) -> list[Read]:
        given: list[Read] = []
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
    """Pieces of the neutral form out; `read` sets the answer's `id` too."""

    def __init__(self) -> None:
        super().__init__()
        self.id = ""
