"""A checked Messages body read into the neutral form, for servers that speak another dialect.

Every member is either taken over or refused by its path; null counts as left out. What only the provider's own servers
understand (cache marks, adaptive reasoning, documents, citations, server tools) has no place there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from ebbtide.dialects.anthropic.blocks import BlockReader, known
from ebbtide.dialects.conversation import Conversation, Effort, Message, Sampling, Tool, ToolChoice, cannot
from ebbtide.dialects.fields import convert, invalid, word_of
from ebbtide.dialects.values import MAX_TOKENS, check_object

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
_NO_PARAMETER: Final = "the model's server has no such parameter"
_CHOICES: Final[Mapping[object, Literal["auto", "required", "none", "tool"]]] = {
    "auto": "auto",
    "any": "required",
    "none": "none",
    "tool": "tool",
}
_EFFORTS: Final[Mapping[object, Effort]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_TOOL: Final = frozenset({"type", "name", "description", "input_schema", "strict"})


class _Messages(msgspec.Struct):
    """The members that have a place in the neutral form."""

    model: str
    max_tokens: _Count
    messages: list[dict[str, object]]
    metadata: dict[str, object] | None = None
    output_config: dict[str, object] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    system: str | list[object] | None = None
    temperature: float | None = None
    thinking: dict[str, object] | None = None
    tool_choice: dict[str, object] | None = None
    tools: list[dict[str, object]] | None = None
    top_k: _Count | None = None
    top_p: float | None = None


_MEMBERS: Final = frozenset(_Messages.__struct_fields__)


def read_conversation(raw: bytes) -> Conversation:
    """A Messages body. Raises InvalidRequest naming the field that is malformed or has no place."""
    body = check_object(raw)
    known("", body, _MEMBERS)
    asked = convert({name: value for name, value in body.items() if value is not None}, _Messages)
    reader = BlockReader()
    messages = (*reader.system(asked.system), *reader.messages(asked.messages))
    mode, parallel = _tool_choice(asked.tool_choice)
    effort, budget = _effort(asked)
    return Conversation(
        messages=messages,
        tools=tuple(_tool(f"tools[{index}]", tool) for index, tool in enumerate(asked.tools or ())),
        tool_choice=mode,
        parallel_tools=parallel,
        sampling=Sampling(temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k),
        stop=tuple(asked.stop_sequences or ()),
        max_tokens=asked.max_tokens,
        effort=effort,
        thinking_tokens=budget,
        continues=_continued(messages),
        user=_user(asked.metadata),
        tier={"auto": "auto", "standard_only": "default", None: None}[asked.service_tier],
    )


def _continued(messages: tuple[Message, ...]) -> str | None:
    """An assistant's words that come last are the beginning of the answer."""
    last = messages[-1]
    return last.path if last.role == "assistant" else None


def _tool(path: str, tool: dict[str, object]) -> Tool:
    if tool.get("type") not in (None, "custom"):
        raise cannot(f"{path}.type", "the model's server takes tools of type custom alone")
    known(path, tool, _TOOL)
    name, about, schema, strict = (tool.get(key) for key in ("name", "description", "input_schema", "strict"))
    if not isinstance(name, str) or not name:
        raise invalid(f"{path}.name", "expected string")
    if not isinstance(schema, dict):
        raise invalid(f"{path}.input_schema", "expected object")
    if about is not None and not isinstance(about, str):
        raise invalid(f"{path}.description", "expected string")
    if strict is not None and not isinstance(strict, bool):
        raise invalid(f"{path}.strict", "expected boolean")
    return Tool(name, about, schema, strict)


def _tool_choice(given: Mapping[str, object] | None) -> tuple[ToolChoice | None, bool | None]:
    """The choice, and whether tools may be called side by side."""
    if given is None:
        return None, None
    known("tool_choice", given, frozenset({"type", "name", "disable_parallel_tool_use"}))
    mode = _CHOICES.get(word_of(given.get("type")))
    if mode is None:
        raise invalid("tool_choice.type", "must be auto, any, none or tool")
    name, alone = given.get("name"), given.get("disable_parallel_tool_use")
    if alone is not None and not isinstance(alone, bool):
        raise invalid("tool_choice.disable_parallel_tool_use", "expected boolean")
    if mode == "tool" and not isinstance(name, str):
        raise invalid("tool_choice.name", "required")
    if mode != "tool" and name is not None:
        raise invalid("tool_choice.name", "goes with the type tool alone")
    choice = ToolChoice(mode, name if isinstance(name, str) else None)
    return choice, None if alone is None else not alone


def _effort(asked: _Messages) -> tuple[Effort | None, int | None]:
    """How much to reason: a level, and the most tokens."""
    effort, budget = _level(asked.output_config), None
    thinking = asked.thinking
    if thinking is None:
        return effort, None
    kind = thinking.get("type")
    if kind == "disabled":
        known("thinking", thinking, frozenset({"type"}))
        if effort is not None:
            raise cannot("output_config.effort", "cannot be told beside disabled thinking")
        return "none", None
    if kind != "enabled":
        raise cannot("thinking.type", _NO_PARAMETER)
    known("thinking", thinking, frozenset({"type", "budget_tokens"}))
    budget = thinking.get("budget_tokens")
    if type(budget) is not int or not 0 < budget <= MAX_TOKENS:
        raise invalid("thinking.budget_tokens", "expected integer")
    return effort, budget


def _level(config: Mapping[str, object] | None) -> Effort | None:
    if config is None:
        return None
    known("output_config", config, frozenset({"effort"}))
    given = config.get("effort")
    if given is None:
        return None
    if not isinstance(given, str) or given not in _EFFORTS:
        raise invalid("output_config.effort", f"must be one of {', '.join(map(str, _EFFORTS))}")
    return _EFFORTS[given]


def _user(metadata: Mapping[str, object] | None) -> tuple[str, str] | None:
    if metadata is None:
        return None
    known("metadata", metadata, frozenset({"user_id"}))
    user = metadata.get("user_id")
    if user is None:
        return None
    if not isinstance(user, str):
        raise invalid("metadata.user_id", "expected string")
    return "metadata.user_id", user
