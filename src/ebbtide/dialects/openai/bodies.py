"""What a chat completion's and an embeddings request's body must be; anything else in them passes through.

The same rules hold for interactive and batched requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from ebbtide.dialects.fields import check_name, check_size, convert, invalid
from ebbtide.dialects.values import MAX_MODEL, MAX_TOKENS, Limits, Target

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]


class _Object(msgspec.Struct, gc=False):
    pass


class _Part(msgspec.Struct, gc=False):
    type: str


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    tool_calls: list[_Object] | None = None


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


# An assistant's turn may be tool calls, a refusal, audio or reasoning alone; a function may have returned nothing.
_MAY_BE_SILENT = ("assistant", "function")


class Chat(msgspec.Struct, gc=False):
    model: _Name
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    n: _Count | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[_Object] | None = None


class Embeddings(msgspec.Struct, gc=False):
    model: _Name
    input: object


def _check_chat(body: dict[str, object], limits: Limits) -> Chat:
    chat = convert(body, Chat)
    check_name(chat.model)
    check_size("messages", len(chat.messages), limits.messages)
    parts = 0
    for index, message in enumerate(chat.messages):
        content = message.content
        if type(content) is list:
            parts += len(content)
        elif content is None and message.role not in _MAY_BE_SILENT and not message.tool_calls:
            raise invalid(f"messages[{index}].content", "required")
    check_size("messages[].content", parts, limits.content_parts)
    if chat.tools is not None:
        check_size("tools", len(chat.tools), limits.tools)
    if type(chat.stop) is list:
        check_size("stop", len(chat.stop), limits.stop_sequences)
    return chat


def _check_embeddings(body: dict[str, object], _: Limits) -> Embeddings:
    embeddings = convert(body, Embeddings)
    check_name(embeddings.model)
    given = embeddings.input
    if isinstance(given, str):
        return embeddings
    if not isinstance(given, list):
        raise invalid("input", "expected string or array of strings or of tokens")
    if not given:
        raise invalid("input", "must not be empty")
    kind = type(given[0])
    if kind not in (str, int, list):
        raise invalid("input[0]", "expected string, token or array of tokens")
    if set(map(type, given)) != {kind}:
        index = next(i for i, item in enumerate(given) if type(item) is not kind)
        raise invalid(f"input[{index}]", "must be of the same kind as the elements before it")
    if kind is list:
        _check_token_lists(given)
    return embeddings


def _check_token_lists(given: list[list[object]]) -> None:
    for index, tokens in enumerate(given):
        if not tokens:
            raise invalid(f"input[{index}]", "must not be empty")
        if set(map(type, tokens)) != {int}:
            raise invalid(f"input[{index}]", "expected array of integers")


CHECKS: dict[Target, Callable[[dict[str, object], Limits], Chat | Embeddings]] = {
    "chat": _check_chat,
    "embeddings": _check_embeddings,
}
