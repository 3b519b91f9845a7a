"""A Messages request written from the neutral form. What the Messages API cannot say is refused by the field's path.

Published at https://docs.anthropic.com/en/api/messages; names and values as in the official SDK's types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from ebbtide.dialects.conversation import (
    Conversation,
    Image,
    Message,
    Part,
    Sent,
    Text,
    Thought,
    Tool,
    ToolCall,
    ToolResult,
    cannot,
)

SAMPLING_REMOVED_IN: Final = "2026-10-21"
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_NO_PARAMETER: Final = "the model's server has no such parameter"


def write_request(asked: Conversation, sent: Sent) -> bytes:
    """The request's body. Raises InvalidRequest for what has no words there."""
    _refuse(asked, sent)
    system, turns = _split(asked.messages)
    members = {
        "model": sent.model,
        "max_tokens": asked.max_tokens or sent.max_tokens,
        "system": [_text(part) for part in system] or None,
        "messages": list(_turns(turns)),
        "tools": [_tool(tool) for tool in asked.tools] or None,
        "tool_choice": _tool_choice(asked),
        "temperature": asked.sampling.temperature,
        "top_p": asked.sampling.top_p,
        "top_k": asked.sampling.top_k,
        "stop_sequences": list(asked.stop) or None,
        "output_config": _output_config(asked),
        "thinking": _thinking(asked),
        "metadata": {"user_id": asked.user[1]} if asked.user else None,
        "service_tier": {"auto": "auto", "default": "standard_only", None: None}[asked.tier],
        "stream": True if sent.stream else None,
    }
    return msgspec.json.encode({name: value for name, value in members.items() if value is not None})


def _refuse(asked: Conversation, sent: Sent) -> None:
    sampling = asked.sampling
    for field in ("seed", "presence_penalty", "frequency_penalty"):
        if getattr(sampling, field) is not None:
            raise cannot(field, _NO_PARAMETER)
    if sent.version >= SAMPLING_REMOVED_IN:
        for field in ("temperature", "top_p", "top_k"):
            if getattr(sampling, field) is not None:
                raise cannot(field, _NO_PARAMETER)
    if asked.count not in (None, 1):
        raise cannot("n", "the model's server gives one choice")
    if asked.effort == "minimal":
        raise cannot("reasoning_effort", "must be none, low, medium, high, xhigh or max")
    if asked.format is not None and asked.format.schema is None:
        raise cannot("response_format.type", "the model's server takes text or json_schema")


def _split(messages: Sequence[Message]) -> tuple[list[Text], Sequence[Message]]:
    """The system text before all else, and the turns; later system messages would change their place."""
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    for message in messages[leading:]:
        if message.role == "system":
            raise cannot(f"{message.path}.role", "the model's server takes system messages before all others")
    system = [part for message in messages[:leading] for part in message.parts if isinstance(part, Text)]
    return system, messages[leading:]


def _turns(messages: Iterable[Message]) -> Iterator[dict[str, object]]:
    """Results of tools that were called together go back in one turn."""
    for role, group in groupby(messages, key=lambda message: message.role):
        if role == "tool":
            results = [_block(part) for message in group for part in message.parts]
            yield {"role": "user", "content": results}
            continue
        for message in group:
            yield {"role": role, "content": [_block(part) for part in message.parts]}


def _block(part: Part) -> dict[str, object]:
    match part:
        case Text():
            return _text(part)
        case Image():
            return {"type": "image", "source": _source(part)}
        case ToolCall(id=name, name=tool, arguments=arguments):
            if part.signature is not None:
                raise cannot(
                    f"{part.path}.extra_content", "the model's server does not take another vendor's signature"
                )
            return {"type": "tool_use", "id": name, "name": tool, "input": arguments}
        case ToolResult():
            return _result(part)
        case Thought():
            return _thought(part)


def _result(part: ToolResult) -> dict[str, object]:
    content: object = [_block(inner) for inner in part.parts]
    if all(isinstance(inner, Text) for inner in part.parts) and len(part.parts) < 2:
        content = part.text
    written = {"type": "tool_result", "tool_use_id": part.call_id, "content": content}
    return {**written, "is_error": True} if part.failed else written


def _thinking(asked: Conversation) -> dict[str, object] | None:
    if asked.thinking_tokens is not None:
        return {"type": "enabled", "budget_tokens": asked.thinking_tokens}
    return {"type": "disabled"} if asked.effort == "none" else None


def _text(part: Text) -> dict[str, object]:
    return {"type": "text", "text": part.text}


def _thought(part: Thought) -> dict[str, object]:
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature is None:
        raise cannot(part.path, "the model's server takes signed reasoning alone")
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _source(image: Image) -> dict[str, object]:
    image.refuse_detail()
    if image.url is not None:
        return {"type": "url", "url": image.url}
    if image.media_type not in _IMAGES:
        raise cannot(image.path, f"must be one of {', '.join(sorted(_IMAGES))}")
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


def _tool(tool: Tool) -> dict[str, object]:
    written: dict[str, object] = {
        "name": tool.name,
        "input_schema": {"type": "object"} if tool.schema is None else tool.schema,
    }
    if tool.description is not None:
        written["description"] = tool.description
    if tool.strict is not None:
        written["strict"] = tool.strict
    return written


def _tool_choice(asked: Conversation) -> dict[str, object] | None:
    choice, parallel = asked.tool_choice, asked.parallel_tools
    if choice is None and (parallel is None or not asked.tools):
        return None
    mode = "auto" if choice is None else choice.mode
    written: dict[str, object] = {"type": "any" if mode == "required" else mode}
    if choice is not None and choice.name is not None:
        written["name"] = choice.name
    if parallel is not None and mode != "none":
        written["disable_parallel_tool_use"] = not parallel
    return written


def _output_config(asked: Conversation) -> dict[str, object] | None:
    config: dict[str, object] = {}
    if asked.effort not in (None, "none"):
        config["effort"] = asked.effort
    if asked.format is not None:
        config["format"] = {"type": "json_schema", "schema": asked.format.schema}
    return config or None
