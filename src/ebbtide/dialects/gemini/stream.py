"""The events of streamGenerateContent (`alt=sse`), read into the neutral form's pieces.

Each event is an answer in the form of a whole one; the stream is complete when every candidate told why it ended, for
no event says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from ebbtide.dialects.conversation import CallPiece, CallStart, End, Piece, TextPiece, ThoughtPiece
from ebbtide.dialects.gemini.responses import (
    Candidate,
    Generated,
    Said,
    call_id,
    decode_generated,
    error_of,
    finish_of,
    usage_of,
)
from ebbtide.dialects.pieces import PieceReader
from ebbtide.dialects.values import Usage

_encode = msgspec.json.Encoder().encode


class GeneratedEvents(PieceReader):
    """`usage` is set once the stream is complete: counts that came before may grow."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed
        self._counted: Usage | None = None
        self._begun: set[int] = set()
        self._ended: set[int] = set()
        self._calls: Counter[int] = Counter()

    def is_whole(self) -> bool:
        """Whether every candidate told why it ended."""
        return bool(self._ended) and self._begun <= self._ended

    def close(self) -> list[Piece]:
        """As ever; tells the usage of a stream that was whole."""
        pieces = super().close()
        if self.done:
            self.usage = self._counted
        return pieces

    def read(self, data: bytes) -> Iterator[Piece]:
        yield from self._pieces(decode_generated(data))

    def _pieces(self, said: Generated) -> Iterator[Piece]:
        if (failed := error_of({"error": said.error})) is not None:
            self.error, self.status = failed.error, failed.status or 502
            return
        self.id = self.id or said.response_id or ""
        self._counted = usage_of(said.usage_metadata) or self._counted
        if said.is_blocked:
            self._ended.add(0)
            yield End(0, "content_filter")
        for candidate in said.candidates:
            yield from self._candidate(candidate)

    def _candidate(self, candidate: Candidate) -> Iterator[Piece]:
        index = candidate.index
        self._begun.add(index)
        for part in candidate.content.parts:
            yield from self._part(index, part)
        if candidate.finish_reason is not None and index not in self._ended:
            self._ended.add(index)
            yield End(index, finish_of(candidate.finish_reason, called=self._calls[index] > 0))

    def _part(self, index: int, part: Said) -> Iterator[Piece]:
        if part.function_call is not None:
            call, number = part.function_call, self._calls[index]
            self._calls[index] += 1
            name = call.id or call_id(f"{self.id or self._seed}_{index}", number)
            yield CallStart(index, number, name, call.name, part.thought_signature)
            yield CallPiece(index, number, _encode(call.args).decode())
        elif part.text:
            yield ThoughtPiece(index, part.text) if part.thought else TextPiece(index, part.text)
