"""A checked Responses body read into the neutral form, for upstreams that do not speak it.

Every member is either taken over or refused by its path; null counts as left out, and so does a value that asks for
nothing. `metadata` needs no upstream: the answer brings it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from ebbtide.dialects.conversation import (
    Conversation,
    Effort,
    Format,
    Message,
    Sampling,
    Text,
    Tool,
    cannot,
)
from ebbtide.dialects.openai.members import choice_of, read, refuse_others, user_of, within
from ebbtide.dialects.openai.responses_api.items import read_input
from ebbtide.dialects.values import MAX_TOKENS, check_object

T = TypeVar("T")

_SEALED: Final = "reasoning.encrypted_content"  # given wherever a server gives one
# Members whose only value that asks for nothing is the one beside them.
_IDLE: Final[Mapping[str, object]] = {
    "background": False,
    "store": False,
    "top_logprobs": 0,
    "truncation": "disabled",
}


class _Request(msgspec.Struct):
    """The members that have a place in the neutral form, and those whose harmless values need none."""

    model: str
    input: str | list[dict[str, object]]
    background: bool | None = None
    include: list[str] | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)] | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, object] | None = None
    safety_identifier: str | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, object] | None = None
    temperature: float | None = None
    text: dict[str, object] | None = None
    tool_choice: str | dict[str, object] | None = None
    tools: list[dict[str, object]] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: str | None = None
    user: str | None = None


class _Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    """A summary of `auto` is whatever there is; what the server tells of its reasoning comes in any case."""

    effort: Effort | None = None
    summary: Literal["auto"] | None = None
    context: Literal["auto"] | None = None
    mode: Literal["standard"] | None = None


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_obfuscation: Literal[False] | None = None


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    format: dict[str, object] | None = None
    verbosity: Literal["medium"] | None = None


class _PlainFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text", "json_object"]


class _SchemaFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    name: str
    schema: dict[str, object]
    strict: bool | None = None


class _Tool(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str
    parameters: dict[str, object] | None = None
    strict: bool | None = None
    description: str | None = None


class _NamedChoice(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["function"]
    name: str


_MEMBERS: Final = frozenset(_Request.__struct_fields__)


def read_request(raw: bytes) -> Conversation:
    """A Responses body. Raises InvalidRequest naming the field that is malformed or has no place."""
    body = check_object(raw)
    refuse_others(body, _MEMBERS)
    request = read(body, _Request)
    _refuse(request)
    reasoning = _within("reasoning", request.reasoning or {}, _Reasoning)
    return Conversation(
        messages=(*_instructions(request), *read_input(request.input)),
        tools=tuple(_tool(index, tool) for index, tool in enumerate(request.tools or ())),
        tool_choice=choice_of(request.tool_choice, _function_chosen),
        parallel_tools=request.parallel_tool_calls,
        sampling=Sampling(temperature=request.temperature, top_p=request.top_p),
        format=_format(_within("text", request.text or {}, _Text).format),
        max_tokens=request.max_output_tokens,
        effort=reasoning.effort,
        user=user_of(request.user, request.safety_identifier),
        tier=request.service_tier,
    )


def _refuse(request: _Request) -> None:
    for field, idle in _IDLE.items():
        if getattr(request, field) not in (None, idle):
            raise cannot(field, f"the model's server takes {msgspec.json.encode(idle).decode()} alone")
    for index, name in enumerate(request.include or ()):
        if name != _SEALED:
            raise cannot(f"include[{index}]", f"the model's server can include {_SEALED} alone")
    _within("stream_options", request.stream_options or {}, _StreamOptions)


def _instructions(request: _Request) -> Iterator[Message]:
    if request.instructions:
        yield Message("system", (Text(request.instructions),), "instructions")


def _tool(index: int, tool: dict[str, object]) -> Tool:
    path = f"tools[{index}]"
    if tool.get("type") != "function":
        raise cannot(f"{path}.type", "the model's server takes tools of type function")
    # Said by some clients of every function, with the one value that a plain call has.
    plain = {"defer_loading": False, "async": False, "allowed_callers": ["direct"]}
    function = _within(path, {name: value for name, value in tool.items() if plain.get(name) != value}, _Tool)
    return Tool(function.name, function.description, function.parameters, function.strict)


def _function_chosen(choice: dict[str, object]) -> str:
    return _within("tool_choice", choice, _NamedChoice).name


def _format(given: dict[str, object] | None) -> Format | None:
    kind = "text" if given is None else given.get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_schema":
        wanted = _within("text.format", given, _SchemaFormat)
        return Format(wanted.schema, wanted.name, wanted.strict)
    if kind != "json_object":
        raise cannot("text.format.type", "must be text, json_object or json_schema")
    _within("text.format", given, _PlainFormat)
    return Format()


def _within(path: str, given: Mapping[str, object], kind: type[T]) -> T:
    """Values are many here that only the vendor's own server can do: one that is not taken is not called malformed."""
    return within(path, given, kind, cannot)
