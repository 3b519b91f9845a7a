"""What the Messages API answers, read into the neutral form: messages, usage and errors.

Nothing in usage or errors can raise; only a 200 that is no message does (ValueError).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ebbtide.dialects.conversation import Choice, Completion, Finish, Part, Text, Thought, ToolCall
from ebbtide.dialects.told import clean, count_of, detail_of
from ebbtide.dialects.values import UpstreamError, Usage

FINISHES: Final[dict[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
# Statuses in the terms of HTTP at large; an unpaid account is the gateway's own trouble, as a refused key is.
STATUSES: Final = {402: 401, 529: 503}
ERROR_STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 503,
}

_decode = msgspec.json.Decoder(dict[str, object]).decode


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, object] = {}
    thinking: str = ""
    signature: str | None = None
    data: str = ""


class _Message(msgspec.Struct):
    id: str
    content: list[_Block]
    stop_reason: str | None = None
    usage: object = None


_decode_message = msgspec.json.Decoder(_Message).decode


def read_message(body: bytes) -> Completion:
    """A whole answer. Raises ValueError for what is none."""
    try:
        message = _decode_message(body)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    finish = FINISHES.get(message.stop_reason or "", "stop")
    return Completion(message.id, (Choice(tuple(_parts(message.content)), finish),), usage_of(message.usage))


def _parts(blocks: list[_Block]) -> Iterator[Part]:
    for block in blocks:
        if block.type == "text":
            yield Text(block.text)
        elif block.type == "tool_use":
            yield ToolCall(block.id, block.name, block.input)
        elif block.type == "thinking":
            yield Thought(block.thinking, block.signature)
        elif block.type == "redacted_thinking":
            yield Thought(redacted=block.data)


def usage_of(usage: object) -> Usage | None:
    """The decoded `usage` as tokens, None unless the counts that decide the price make sense.

    The API's `input_tokens` leave out what was read from a cache or written to one; ours are their sum.
    """
    if not isinstance(usage, dict):
        return None
    given, made = count_of(usage.get("input_tokens")), count_of(usage.get("output_tokens"))
    if given is None or made is None:
        return None
    read = detail_of(usage, "cache_read_input_tokens")
    written = detail_of(usage, "cache_creation_input_tokens")
    thought = detail_of(usage.get("output_tokens_details"), "thinking_tokens")
    return Usage(given + read + written, read, made, min(thought, made), written)


def read_error(body: bytes) -> tuple[UpstreamError | None, str | None]:
    """What an error answer says, None where it says nothing that can be read; and its type."""
    try:
        return error_of(_decode(body))
    except (ValueError, RecursionError):
        return None, None


def error_of(answer: dict[str, object]) -> tuple[UpstreamError | None, str | None]:
    """The error that an object is, and its type; None when it is none."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return None, None
    message, kind = error.get("message"), error.get("type")
    text = message if isinstance(message, str) and message.strip() else "The upstream answered with an error"
    return UpstreamError(clean(text)), kind if isinstance(kind, str) else None
