"""What a chat completion's and an embeddings request's body must be, and what is read of it; all else passes through.

The same rules hold for interactive and batched requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from ebbtide.dialects.fields import JsonObject, check_name, check_size, convert, invalid
from ebbtide.dialects.values import (
    BOM,
    MAX_MODEL,
    MAX_TOKENS,
    STANDARD,
    BatchBody,
    Body,
    Limits,
    Target,
    Terms,
    check_object,
    with_model,
)

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]


class ContentPart(msgspec.Struct, gc=False):
    type: str


class ChatMessage(msgspec.Struct, gc=False):
    role: str
    content: str | list[ContentPart] | None = None
    tool_calls: list[JsonObject] | None = None


class ChatStreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


# An assistant's turn may be tool calls, a refusal, audio or reasoning alone; a function may have returned nothing.
_MAY_BE_SILENT = ("assistant", "function")


class Chat(msgspec.Struct, gc=False):
    model: _Name
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    n: _Count | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    tools: list[JsonObject] | None = None


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


def parse_body(target: Target, raw: bytes, terms: Terms = STANDARD) -> Body:
    """Check an interactive request's body. Raises InvalidRequest naming the field. A leading BOM is stripped."""
    raw = raw.removeprefix(BOM)
    body = check_object(raw)
    checked = CHECKS[target](body, terms.limits)
    if isinstance(checked, Embeddings):
        return Body(model=checked.model, raw=raw)
    return Body(
        model=checked.model,
        raw=raw,
        stream=bool(checked.stream),
        max_tokens=checked.max_completion_tokens or checked.max_tokens,
        asks_usage=checked.stream_options is not None and bool(checked.stream_options.include_usage),
    )


def check_batch_body(target: Target, body: dict[str, object], terms: Terms = STANDARD) -> BatchBody:
    """Check the decoded body of a batched request; returns the model and output it names. Raises InvalidRequest.

    Holds it to what the endpoint asks, and refuses streams and the fields that only tell a queue what to do.
    """
    checked = CHECKS[target](body, terms.limits)
    refuse_queueing(body)
    if isinstance(checked, Embeddings):
        return BatchBody(checked.model)
    return BatchBody(checked.model, checked.max_completion_tokens or checked.max_tokens)


def refuse_queueing(body: dict[str, object]) -> None:
    """Refuse what no batched request of OpenAI's APIs may say. Raises InvalidRequest."""
    if body.get("stream"):
        raise invalid("stream", "must not be true in a batch")
    for field in ("background", "priority"):
        if body.get(field) is not None:
            raise invalid(field, "not allowed in a batch")
    if body.get("anthropic_version") is not None:
        raise invalid("anthropic_version", "not allowed in a request's body")
    if body.get("service_tier") not in (None, "auto", "default"):
        raise invalid("service_tier", "must be auto or default in a batch")


def streamed(raw: bytes, model: str) -> bytes:
    """The bytes of a streamed chat request for an upstream that calls the model `model`.

    It is asked for its usage, which is how its cost is known; the caller's other stream options stay.
    """
    sent = msgspec.json.decode(raw).get("stream_options") or {}
    return with_model(raw, model, stream_options={**sent, "include_usage": True})
