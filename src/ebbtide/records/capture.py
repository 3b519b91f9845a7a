"""What interactive requests and their answers say, held from the moment they are sent until it is stored.

Nothing is held while DB_STORE_FULL_CONTENT is off when the request is sent. What a process holds is bounded: a request
that finds no room is logged without its content, and that is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ebbtide.dialects.assembled import assembled
from ebbtide.records.content import LONGEST_BYTES, Content, Packer
from ebbtide.records.metrics import LOG_CONTENTS

MOST_BYTES: Final = 64 << 20
"""How much a process holds, of all its requests together."""
LONGEST_STREAM_BYTES: Final = 4 * LONGEST_BYTES
"""How much of a stream is held; most of it is not text, and is gone when it is stored."""


class Capture:
    """What one request said, and what it was answered so far; each only as far as it will be kept."""

    def __init__(self, captures: Captures, request: bytes, *, streamed: bool) -> None:
        self.request = request[:LONGEST_BYTES]
        self.request_bytes = len(request)
        self.answer_bytes = 0
        self.streamed = streamed
        self._captures = captures
        self._answer = bytearray()
        self._held = 0
        self._hold(len(self.request))

    @property
    def is_lost(self) -> bool:
        """Whether there was no room for it."""
        return self._held < 0

    @property
    def answer(self) -> bytes:
        return bytes(self._answer)

    @property
    def is_cut(self) -> bool:
        """Whether some of the answer is not held."""
        return self.answer_bytes > len(self._answer)

    def add(self, piece: bytes) -> None:
        """A piece of the answer went out."""
        self.answer_bytes += len(piece)
        longest = LONGEST_STREAM_BYTES if self.streamed else LONGEST_BYTES
        part = piece[: longest - len(self._answer)]
        if part and not self.is_lost and self._hold(len(part)):
            self._answer += part

    def drop(self) -> None:
        """It is stored, or never will be."""
        if not self.is_lost:
            self._captures.give_back(self._held)
        self.request, self._answer, self._held = b"", bytearray(), -1

    def _hold(self, count: int) -> bool:
        if self._captures.take(count):
            self._held += count
            return True
        self.drop()
        LOG_CONTENTS.labels("dropped").inc()
        return False


class Captures:
    """The captures of one process. `wanted` tells whether content is kept at the moment."""

    def __init__(self, wanted: Callable[[], bool], most: int = MOST_BYTES) -> None:
        self._wanted = wanted
        self._left = self._most = most

    @property
    def held(self) -> int:
        """Bytes that are held now."""
        return self._most - self._left

    def begin(self, request: bytes, *, streamed: bool) -> Capture | None:
        """Hold what a request that is being sent says; None while nothing is to be kept."""
        return Capture(self, request, streamed=streamed) if self._wanted() else None

    def take(self, count: int) -> bool:
        """Make room for more; False when there is none."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def give_back(self, count: int) -> None:
        self._left += count


def pack_captures(captures: Sequence[Capture]) -> list[Content]:
    """As they will be stored, each stream put together. Work for a thread."""
    packer, packed = Packer(), []
    for one in captures:
        answer, size = one.answer, one.answer_bytes
        whole = assembled(answer) if one.streamed else None
        if whole is not None:
            answer, size = whole, size if one.is_cut else len(whole)
        packed.append(packer.pack(one.request, answer, one.request_bytes, size))
    return packed
