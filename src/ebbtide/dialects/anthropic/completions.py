"""Messages written from the neutral form: whole answers, and the events of a stream.

Counts that the server did not tell are 0 here, since the API's own types demand a number; what a request costs is
never reckoned from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ebbtide.dialects.anthropic.errors import error_event
from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    End,
    Finish,
    Named,
    Part,
    Piece,
    Text,
    TextPiece,
    Thought,
    ThoughtEnd,
    ThoughtPiece,
    ToolCall,
)
from ebbtide.dialects.values import UnsayableAnswer, Usage, one_line
from ebbtide.errors import EbbtideError

_encode = msgspec.json.Encoder().encode
_REASONS: Final[dict[Finish, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


def write_message(answer: Completion, named: Named) -> bytes:
    """The answer as one line of JSON; a Messages request has one choice. Raises UnsayableAnswer."""
    choice = answer.choices[0]
    body = {
        **_head(answer.id, named),
        "content": [_block(part) for part in choice.parts],
        **_reason(choice),
        "usage": usage_of(answer.usage),
    }
    return one_line(_encode(body))


def usage_of(usage: Usage | None) -> dict[str, object]:
    """`usage` as the Messages API tells it: what was read from a cache or written to one stands beside the input."""
    told = usage or Usage(0, 0, 0, 0)
    return {
        "input_tokens": max(0, told.input_tokens - told.cached_tokens - told.cache_write_tokens),
        "cache_creation_input_tokens": told.cache_write_tokens,
        "cache_read_input_tokens": told.cached_tokens,
        "output_tokens": told.output_tokens,
        "output_tokens_details": {"thinking_tokens": told.reasoning_tokens},
    }


def _head(answer_id: str, named: Named) -> dict[str, object]:
    name = answer_id if answer_id.startswith("msg_") else f"msg_{answer_id.rpartition('-')[2]}"
    return {"id": name, "type": "message", "role": "assistant", "model": named.model}


def _reason(end: Choice | End) -> dict[str, object]:
    reason = "stop_sequence" if end.matched is not None and end.finish == "stop" else _REASONS[end.finish]
    return {"stop_reason": reason, "stop_sequence": end.matched if reason == "stop_sequence" else None}


def _block(part: Part) -> dict[str, object]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text, "citations": None}
        case ToolCall(name=name, written=str()):
            raise UnsayableAnswer(f"The model called the tool {name} with arguments that are not a JSON object")
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case Thought(redacted=str(redacted)):
            return {"type": "redacted_thinking", "data": redacted}
        case Thought(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature or ""}
        case _:
            raise ValueError("No part of an answer")


class MessageEvents:
    """Writes the pieces of a stream as events: one block open at a time, the reason and the usage at its end."""

    def __init__(self, named: Named) -> None:
        self._named = named
        self._begun = False
        self._index = -1
        self._open: tuple[str, int] | None = None  # a block's type, and the call it is
        self._end = End(0, "stop")

    def write(self, pieces: Sequence[Piece], answer_id: str) -> bytes:
        """The events of these pieces."""
        return b"".join(event for piece in pieces for event in (*self._start(answer_id), *self._piece(piece)))

    def finish(self, usage: Usage | None) -> bytes:
        """The stream's end: the reason and the usage, then message_stop."""
        told = _event({"type": "message_delta", "delta": _reason(self._end), "usage": usage_of(usage)})
        return b"".join([*self._start(""), *self._close(), told, _event({"type": "message_stop"})])

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        """The end of a stream that broke."""
        return error_event(error, request_id)

    def _start(self, answer_id: str) -> Iterator[bytes]:
        if self._begun:
            return
        self._begun = True
        empty: dict[str, object] = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_of(None)}
        yield _event({"type": "message_start", "message": {**_head(answer_id, self._named), **empty}})
        yield _event({"type": "ping"})

    def _piece(self, piece: Piece) -> Iterator[bytes]:
        match piece:
            case TextPiece(text=text):
                yield from self._block("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": text})
            case ThoughtPiece(text=text):
                yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                yield self._delta({"type": "thinking_delta", "thinking": text})
            case ThoughtEnd(thought=thought):
                yield from self._thought(thought)
            case CallStart(call=call, id=call_id, name=name):
                called: dict[str, object] = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                yield from self._block("tool_use", called, call)
            case CallPiece(text=text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})
            case End():
                self._end = piece

    def _thought(self, thought: Thought) -> Iterator[bytes]:
        if thought.redacted is not None:
            yield from self._close()
            yield from self._block("redacted", {"type": "redacted_thinking", "data": thought.redacted})
        else:
            yield from self._block("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta({"type": "signature_delta", "signature": thought.signature or ""})
        yield from self._close()

    def _block(self, kind: str, block: dict[str, object], call: int = 0) -> Iterator[bytes]:
        """Have this block open: the one that is, or a new one."""
        if self._open == (kind, call):
            return
        yield from self._close()
        self._index += 1
        self._open = (kind, call)
        yield _event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: dict[str, object]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            self._open = None
            yield _event({"type": "content_block_stop", "index": self._index})


def _event(said: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(said["type"]).encode(), _encode(said))
