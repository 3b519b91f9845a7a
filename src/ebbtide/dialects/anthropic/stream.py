"""The events of a streamed message, read into the neutral form's pieces.

https://docs.anthropic.com/en/docs/build-with-claude/streaming: message_start, content_block_start, _delta and _stop,
message_delta, message_stop; ping and unknown ones say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ebbtide.dialects.anthropic.responses import ERROR_STATUSES, FINISHES, error_of, usage_of
from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    End,
    Piece,
    TextPiece,
    Thought,
    ThoughtEnd,
    ThoughtPiece,
)
from ebbtide.dialects.pieces import PieceReader
from ebbtide.dialects.values import UpstreamError

_decode = msgspec.json.Decoder(dict[str, object]).decode


class MessageEvents(PieceReader):
    """`usage` is set once the last counts came, `done` by message_stop."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, object] = {}
        self._calls: dict[object, int] = {}
        self._empty_calls: set[object] = set()
        self._thoughts: dict[object, list[str]] = {}
        self._signatures: dict[object, str] = {}
        self._readers: dict[str, Callable[[dict[str, Any]], Iterator[Piece]]] = {
            "message_start": self._start,
            "content_block_start": self._block_start,
            "content_block_delta": self._delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._stop,
            "error": self._fail,
        }

    def read(self, data: bytes) -> Iterator[Piece]:
        said = _decode(data)
        reader = self._readers.get(str(said.get("type")))
        if reader is not None:
            yield from reader(said)

    def _start(self, said: dict[str, Any]) -> Iterator[Piece]:
        message = said["message"]
        self.id = str(message["id"])
        self._counts.update(message.get("usage") or {})
        yield from ()

    def _block_start(self, said: dict[str, Any]) -> Iterator[Piece]:
        block, index = said["content_block"], said["index"]
        match block["type"]:
            case "text" if block.get("text"):
                yield TextPiece(0, block["text"])
            case "tool_use":
                self._calls[index] = len(self._calls)
                self._empty_calls.add(index)
                yield CallStart(0, self._calls[index], str(block["id"]), str(block["name"]))
            case "thinking":
                self._thoughts[index] = [block.get("thinking") or ""]
            case "redacted_thinking":
                yield ThoughtEnd(0, Thought(redacted=str(block["data"])))

    def _delta(self, said: dict[str, Any]) -> Iterator[Piece]:
        delta, index = said["delta"], said["index"]
        match delta["type"]:
            case "text_delta":
                yield TextPiece(0, str(delta["text"]))
            case "input_json_delta" if delta["partial_json"]:
                self._empty_calls.discard(index)
                yield CallPiece(0, self._calls[index], str(delta["partial_json"]))
            case "thinking_delta":
                self._thoughts[index].append(str(delta["thinking"]))
                yield ThoughtPiece(0, str(delta["thinking"]))
            case "signature_delta":
                self._signatures[index] = str(delta["signature"])

    def _block_stop(self, said: dict[str, Any]) -> Iterator[Piece]:
        index = said["index"]
        if index in self._empty_calls:  # a call without arguments sends none, and none is no JSON
            self._empty_calls.discard(index)
            yield CallPiece(0, self._calls[index], "{}")
        if index in self._thoughts and index in self._signatures:
            yield ThoughtEnd(0, Thought("".join(self._thoughts.pop(index)), self._signatures.pop(index)))

    def _message_delta(self, said: dict[str, Any]) -> Iterator[Piece]:
        self._counts.update({name: count for name, count in (said.get("usage") or {}).items() if count is not None})
        self.usage = usage_of(self._counts)
        reason = said["delta"].get("stop_reason")
        if reason is not None:
            yield End(0, FINISHES.get(str(reason), "stop"))

    def _stop(self, said: dict[str, Any]) -> Iterator[Piece]:
        self.done = True
        yield from ()

    def _fail(self, said: dict[str, Any]) -> Iterator[Piece]:
        error, kind = error_of(said)
        self.error = error or UpstreamError("The upstream answered with an error")
        self.status = ERROR_STATUSES.get(kind or "", 502)
        yield from ()
