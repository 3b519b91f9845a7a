"""A checked chat completions or embeddings body read into the neutral form, for upstreams that speak another dialect.

Every member is either taken over or refused by its path; null counts as left out. A reading never depends on the
upstream: what one vendor cannot say is refused where its request is written.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec

from ebbtide.dialects.conversation import Conversation, Effort, Embed, Format, Sampling, Tool, cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.openai.members import choice_of, read, refuse_others, user_of, within
from ebbtide.dialects.openai.messages import read_messages
from ebbtide.dialects.values import MAX_TOKENS, check_object

T = TypeVar("T")

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: _Function


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class _NamedChoice(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    function: _Named


class _Schema(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    schema: dict[str, object]
    strict: bool | None = None


class _SchemaFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    json_schema: _Schema


class _PlainFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text", "json_object"]


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None


class _Chat(msgspec.Struct):
    """The members that have a place in the neutral form, and those whose harmless values need none."""

    model: str
    messages: list[dict[str, object]]
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    max_completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    n: _Count | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: float | None = None
    reasoning_effort: Effort | None = None
    response_format: dict[str, object] | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: Literal["auto", "default"] | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, object] | None = None
    temperature: float | None = None
    tool_choice: str | dict[str, object] | None = None
    tools: list[dict[str, object]] | None = None
    top_k: _Count | None = None
    top_p: float | None = None
    user: str | None = None


class _Embeddings(msgspec.Struct):
    model: str
    input: object
    dimensions: _Count | None = None
    encoding_format: Literal["float", "base64"] | None = None


_MEMBERS: Final = frozenset(_Chat.__struct_fields__)
_EMBEDDING_MEMBERS: Final = frozenset(_Embeddings.__struct_fields__)


def read_conversation(raw: bytes) -> Conversation:
    """A chat completions body. Raises InvalidRequest naming the field that is malformed or has no place."""
    body = check_object(raw)
    refuse_others(body, _MEMBERS)
    chat = read(body, _Chat)
    for field in ("logprobs", "store"):
        if getattr(chat, field):
            raise cannot(field, "the model's server has no such parameter")
    if chat.stream_options is not None:
        within("stream_options", chat.stream_options, _StreamOptions)
    if chat.max_tokens is not None and chat.max_completion_tokens not in (None, chat.max_tokens):
        raise invalid("max_tokens", "must not differ from max_completion_tokens")
    return Conversation(
        messages=read_messages(chat.messages),
        tools=tuple(_tool(index, tool) for index, tool in enumerate(chat.tools or ())),
        tool_choice=choice_of(chat.tool_choice, _function_chosen),
        parallel_tools=chat.parallel_tool_calls,
        sampling=_sampling(chat),
        format=_format(chat.response_format),
        stop=(chat.stop,) if isinstance(chat.stop, str) else tuple(chat.stop or ()),
        max_tokens=chat.max_completion_tokens or chat.max_tokens,
        count=chat.n,
        effort=chat.reasoning_effort,
        user=user_of(chat.user, chat.safety_identifier),
        tier=chat.service_tier,
    )


def read_embed(raw: bytes) -> Embed:
    """An embeddings body. Raises InvalidRequest; tokens in place of text have no place."""
    body = check_object(raw)
    refuse_others(body, _EMBEDDING_MEMBERS)
    asked = read(body, _Embeddings)
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    if not isinstance(texts, list) or not texts:
        raise invalid("input", "expected string or array of strings")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise cannot(f"input[{index}]", "the model's server takes text, not tokens")
    return Embed(tuple(texts), asked.dimensions, packed=asked.encoding_format == "base64")


def _tool(index: int, tool: dict[str, object]) -> Tool:
    path = f"tools[{index}]"
    if tool.get("type") != "function":
        raise cannot(f"{path}.type", "the model's server takes tools of type function")
    function = _inner(path, tool, "function", _Function)
    return Tool(function.name, function.description, function.parameters, function.strict)


def _inner(path: str, value: dict[str, object], name: str, kind: type[T]) -> T:
    """The object `name` of a wrapper that has only it and its `type`."""
    refuse_others(value, frozenset({"type", name}), path)
    inner = value.get(name)
    if not isinstance(inner, dict):
        raise invalid(f"{path}.{name}", "expected object")
    return within(f"{path}.{name}", inner, kind)


def _function_chosen(choice: dict[str, object]) -> str:
    return _inner("tool_choice", choice, "function", _Named).name


def _format(given: dict[str, object] | None) -> Format | None:
    if given is None:
        return None
    kind = given.get("type")
    if kind == "json_schema":
        asked = _inner("response_format", given, "json_schema", _Schema)
        return Format(asked.schema, asked.name, asked.strict)
    if kind not in ("text", "json_object"):
        raise cannot("response_format.type", "must be text, json_object or json_schema")
    within("response_format", given, _PlainFormat)
    return Format() if kind == "json_object" else None


def _sampling(chat: _Chat) -> Sampling:
    return Sampling(
        temperature=chat.temperature,
        top_p=chat.top_p,
        top_k=chat.top_k,
        seed=chat.seed,
        presence_penalty=chat.presence_penalty,
        frequency_penalty=chat.frequency_penalty,
    )
