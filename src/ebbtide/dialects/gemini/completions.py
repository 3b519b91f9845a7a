"""generateContent's answers written from the neutral form: whole ones, and the events of a stream.

A call of a function goes out whole, when its arguments are; reasoning only where the request asks to see it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

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
    ThoughtPiece,
    ToolCall,
    arguments_in,
)
from ebbtide.dialects.gemini.errors import error_event
from ebbtide.dialects.values import Usage, one_line
from ebbtide.errors import EbbtideError

_encode = msgspec.json.Encoder().encode
_REASONS: Final[dict[Finish, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "content_filter": "SAFETY",
}


def write_generated(answer: Completion, named: Named, *, thoughts: bool) -> bytes:
    """The answer as one line of JSON."""
    candidates = [_candidate(index, choice, thoughts) for index, choice in enumerate(answer.choices)]
    return one_line(_encode({"candidates": candidates, **_foot(named, answer.id, answer.usage)}))


def usage_of(usage: Usage) -> dict[str, int]:
    """`usage` as the API tells it: candidates without thoughts, and the sum of all."""
    told = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens:
        told["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        told["thoughtsTokenCount"] = usage.reasoning_tokens
    return told


def _foot(named: Named, answer_id: str, usage: Usage | None) -> dict[str, object]:
    counts = {} if usage is None else {"usageMetadata": usage_of(usage)}
    return {**counts, "modelVersion": named.model, "responseId": answer_id}


def _candidate(index: int, choice: Choice, thoughts: bool) -> dict[str, object]:
    parts = [_part(part) for part in choice.parts if thoughts or not isinstance(part, Thought)]
    content = {"parts": parts, "role": "model"}
    return {"content": content, "finishReason": _REASONS[choice.finish], "index": index}


def _part(part: Part) -> dict[str, object]:
    match part:
        case Text(text=text):
            return {"text": text}
        case ToolCall(id=call_id, name=name, signature=signature):
            arguments = part.arguments if part.written is None else {"arguments": part.written}
            call: dict[str, object] = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
            return call if signature is None else {**call, "thoughtSignature": signature}
        case Thought(text=text):
            return {"text": text, "thought": True}
        case _:
            raise ValueError("No part of an answer")


class _Call(msgspec.Struct):
    """A call under way."""

    id: str
    name: str
    signature: str | None
    arguments: list[str]


class Generation:
    """Writes the pieces of a stream as events, each an answer in the form of a whole one.

    The last one tells why each candidate ended, and the usage.
    """

    def __init__(self, named: Named, *, thoughts: bool) -> None:
        self._named = named
        self._thoughts = thoughts
        self._id = ""
        self._calls: dict[tuple[int, int], _Call] = {}
        self._ends: dict[int, Finish] = {}

    def write(self, pieces: Sequence[Piece], answer_id: str) -> bytes:
        """The event of these pieces; none where they tell nothing yet."""
        self._id = self._id or answer_id
        parts: dict[int, list[Part]] = defaultdict(list)
        for piece in pieces:
            for part in self._read(piece):
                _add(parts[piece.choice], part)
        if not parts:
            return b""
        candidates = [
            {"content": {"parts": [_part(part) for part in told], "role": "model"}, "index": index}
            for index, told in sorted(parts.items())
        ]
        return _event({"candidates": candidates, **_foot(self._named, self._id, None)})

    def finish(self, usage: Usage | None) -> bytes:
        """The stream's end."""
        candidates = []
        for index in sorted(self._ends or {0: "stop"}):
            parts = [_part(part) for part in self._called(index)]
            content = {"parts": parts or [{"text": ""}], "role": "model"}
            reason = _REASONS[self._ends.get(index, "stop")]
            candidates.append({"content": content, "finishReason": reason, "index": index})
        return _event({"candidates": candidates, **_foot(self._named, self._id, usage)})

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        """The end of a stream that broke."""
        return error_event(error, request_id)

    def _read(self, piece: Piece) -> Iterator[Part]:
        match piece:
            case TextPiece(text=text):
                yield Text(text)
            case ThoughtPiece(text=text) if self._thoughts:
                yield Thought(text)
            case CallStart(choice=choice, call=call):
                self._calls[choice, call] = _Call(piece.id, piece.name, piece.signature, [])
            case CallPiece(choice=choice, call=call, text=text):
                self._calls[choice, call].arguments.append(text)
            case End(choice=choice, finish=finish):
                self._ends[choice] = finish
                yield from self._called(choice)

    def _called(self, choice: int) -> Iterator[Part]:
        """The calls of a candidate that are whole now."""
        for key in sorted(key for key in self._calls if key[0] == choice):
            call = self._calls.pop(key)
            arguments, written = arguments_in("".join(call.arguments))
            yield ToolCall(call.id, call.name, arguments, call.signature, written)


def _add(parts: list[Part], part: Part) -> None:
    """Texts that follow each other are one."""
    if parts and isinstance(part, Text) and isinstance(parts[-1], Text):
        parts[-1] = Text(parts[-1].text + part.text)
    else:
        parts.append(part)


def _event(said: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(said)
