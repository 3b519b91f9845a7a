"""Chat completions and embeddings written from the neutral form: whole answers, and the chunks of a stream."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Sequence

import msgspec

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    Embedded,
    End,
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
from ebbtide.dialects.openai.errors import error_event
from ebbtide.dialects.values import Usage, one_line
from ebbtide.errors import EbbtideError

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def write_completion(answer: Completion, named: Named) -> bytes:
    """The answer as one line of JSON."""
    body: dict[str, object] = {
        "id": answer.id,
        "object": "chat.completion",
        "created": named.created,
        "model": named.model,
        "choices": [_choice(index, choice) for index, choice in enumerate(answer.choices)],
    }
    if answer.usage is not None:
        body["usage"] = usage_of(answer.usage)
    return one_line(_encode(body))


def write_embeddings(answer: Embedded, named: Named, *, packed: bool) -> bytes:
    """The answer as one line of JSON; `usage` is null where it was not told."""
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(answer.vectors)
    ]
    used = answer.usage
    usage = None if used is None else {"prompt_tokens": used.input_tokens, "total_tokens": used.input_tokens}
    return one_line(_encode({"object": "list", "data": data, "model": named.model, "usage": usage}))


class Chunks:
    """Writes the pieces of a stream as events; the first chunk of a choice tells its role."""

    def __init__(self, named: Named, *, show_usage: bool) -> None:
        self._id = ""
        self._show_usage = show_usage
        self._named = named
        self._begun: set[int] = set()

    def write(self, pieces: Iterable[Piece], answer_id: str) -> bytes:
        """The events of these pieces."""
        self._id = self._id or answer_id
        return b"".join(self._event(piece) for piece in pieces)

    def finish(self, usage: Usage | None) -> bytes:
        """The stream's end, before it the event that tells the usage where it was asked for."""
        if usage is None or not self._show_usage:
            return DONE
        return self._data({**self._head(), "choices": [], "usage": usage_of(usage)}) + DONE

    def fail(self, error: EbbtideError, _: str) -> bytes:
        """The end of a stream that broke."""
        return error_event(error)

    def _event(self, piece: Piece) -> bytes:
        delta, finish = _delta(piece)
        if piece.choice not in self._begun:
            self._begun.add(piece.choice)
            delta = {"role": "assistant", **delta}
        choice = {"index": piece.choice, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._data({**self._head(), "choices": [choice]})

    def _head(self) -> dict[str, object]:
        named = self._named
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": named.created,
            "model": named.model,
        }

    def _data(self, chunk: object) -> bytes:
        return b"data: %b\n\n" % _encode(chunk)


def usage_of(usage: Usage) -> dict[str, object]:
    """`usage` as chat completions tell it."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _choice(index: int, choice: Choice) -> dict[str, object]:
    message = _message(choice.parts)
    return {"index": index, "message": message, "logprobs": None, "finish_reason": choice.finish}


def _message(parts: Sequence[Part]) -> dict[str, object]:
    texts = [part.text for part in parts if isinstance(part, Text)]
    message: dict[str, object] = {"role": "assistant", "content": "".join(texts) if texts else None, "refusal": None}
    thoughts = [part for part in parts if isinstance(part, Thought)]
    if thought := "".join(part.text for part in thoughts):
        message["reasoning_content"] = thought
    if signed := [_block(part) for part in thoughts if part.signature is not None or part.redacted is not None]:
        message["thinking_blocks"] = signed
    if calls := [_call(part) for part in parts if isinstance(part, ToolCall)]:
        message["tool_calls"] = calls
    return message


def _block(thought: Thought) -> dict[str, object]:
    if thought.redacted is not None:
        return {"type": "redacted_thinking", "data": thought.redacted}
    return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}


def _call(call: ToolCall) -> dict[str, object]:
    arguments = _encode(call.arguments).decode() if call.written is None else call.written
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
        **_extra(call.signature),
    }


def _extra(signature: str | None) -> dict[str, object]:
    return {} if signature is None else {"extra_content": {"google": {"thought_signature": signature}}}


def _delta(piece: Piece) -> tuple[dict[str, object], str | None]:
    match piece:
        case TextPiece(text=text):
            return {"content": text}, None
        case ThoughtPiece(text=text):
            return {"reasoning_content": text}, None
        case ThoughtEnd(thought=thought):
            return {"thinking_blocks": [_block(thought)]}, None
        case CallStart(call=index, id=name, name=function, signature=signature):
            started = {"name": function, "arguments": ""}
            call = {"index": index, "id": name, "type": "function", "function": started, **_extra(signature)}
            return {"tool_calls": [call]}, None
        case CallPiece(call=index, text=text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}, None
        case End(finish=finish):
            return {}, finish


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
