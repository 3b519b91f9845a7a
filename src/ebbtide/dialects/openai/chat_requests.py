"""A chat completions request written from the neutral form. What chat completions cannot say is refused by its path.

Published at https://platform.openai.com/docs/api-reference/chat/create; `reasoning_content` and
`extra_content.google.thought_signature` are what such servers gave their own reasoning and calls back with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ebbtide.dialects.conversation import (
    Conversation,
    Format,
    Image,
    Message,
    Sent,
    Text,
    Thought,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    cannot,
)

_encode = msgspec.json.Encoder().encode
_ORDER: Final = {Thought: 0, Text: 1, ToolCall: 2}
_NO_PARAMETER: Final = "the model's server has no such parameter"


def write_chat(asked: Conversation, sent: Sent) -> bytes:
    """The request's body. Raises InvalidRequest for what has no words there."""
    _refuse(asked, sent)
    members: dict[str, object] = {
        "model": sent.model,
        "messages": [written for message in asked.messages for written in _messages(message)],
        "max_completion_tokens": asked.max_tokens,
        "tools": [_tool(tool) for tool in asked.tools] or None,
        "tool_choice": None if asked.tool_choice is None else _tool_choice(asked.tool_choice),
        "parallel_tool_calls": asked.parallel_tools if asked.tools else None,
        **msgspec.structs.asdict(asked.sampling),
        "response_format": None if asked.format is None else _format(asked.format),
        "stop": list(asked.stop) or None,
        "n": asked.count,
        "reasoning_effort": asked.effort,
        "service_tier": asked.tier,
        "stream": True if sent.stream else None,
        "stream_options": {"include_usage": True} if sent.stream else None,
    }
    if asked.user is not None:
        members["safety_identifier" if asked.user[0] == "safety_identifier" else "user"] = asked.user[1]
    return _encode({name: value for name, value in members.items() if value is not None})


def _refuse(asked: Conversation, sent: Sent) -> None:
    if asked.continues is not None:
        raise cannot(asked.continues, "the model's server does not go on from an assistant's message")
    if asked.thinking_tokens is not None:
        raise cannot("thinking", _NO_PARAMETER)
    if asked.sampling.top_k is not None and "top_k" not in sent.extras:
        raise cannot("top_k", _NO_PARAMETER)


def _messages(message: Message) -> Iterator[dict[str, object]]:
    if message.role == "tool":
        yield from (_result(part) for part in message.parts if isinstance(part, ToolResult))
    elif message.role == "assistant":
        yield _assistant(message)
    else:
        content = _content(part for part in message.parts if isinstance(part, (Text, Image)))
        yield {"role": message.role, "content": content}


def _assistant(message: Message) -> dict[str, object]:
    order = [_ORDER.get(type(part), 1) for part in message.parts]
    if order != sorted(order):
        raise cannot(f"{message.path}.content", "the model's server takes reasoning, then text, then calls of tools")
    texts = [part for part in message.parts if isinstance(part, Text)]
    written: dict[str, object] = {"role": "assistant", "content": _content(texts) if texts else None}
    if thoughts := [_thought(part) for part in message.parts if isinstance(part, Thought)]:
        written["reasoning_content"] = "".join(thoughts)
    if calls := [_call(part) for part in message.parts if isinstance(part, ToolCall)]:
        written["tool_calls"] = calls
    elif not texts:
        written["content"] = ""
    return written


def _content(parts: Iterable[Text | Image]) -> object:
    """A string where there is one text: what every server takes."""
    given = list(parts)
    if len(given) == 1 and isinstance(given[0], Text):
        return given[0].text
    return [_part(part) for part in given]


def _part(part: Text | Image) -> dict[str, object]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    detail = {} if part.detail is None else {"detail": part.detail}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _result(part: ToolResult) -> dict[str, object]:
    part = part.unflagged()
    for inner in part.parts:
        if isinstance(inner, Image):
            raise cannot(inner.path, "the model's server takes no image from a tool")
    return {"role": "tool", "tool_call_id": part.call_id, "content": _content(part.parts) or ""}


def _thought(part: Thought) -> str:
    if part.signature is not None or part.redacted is not None:
        raise cannot(part.path, "the model's server does not take another vendor's signed reasoning")
    return part.text


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": _encode(call.arguments).decode()}
    written: dict[str, object] = {"id": call.id, "type": "function", "function": function}
    if call.signature is not None:
        written["extra_content"] = {"google": {"thought_signature": call.signature}}
    return written


def _tool(tool: Tool) -> dict[str, object]:
    members = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": tool.strict,
    }
    return {"type": "function", "function": {name: value for name, value in members.items() if value is not None}}


def _tool_choice(choice: ToolChoice) -> object:
    if choice.mode != "tool":
        return choice.mode
    return {"type": "function", "function": {"name": choice.name}}


def _format(asked: Format) -> dict[str, object]:
    if asked.schema is None:
        return {"type": "json_object"}
    schema: dict[str, object] = {"name": asked.name or "answer", "schema": asked.schema}
    return {
        "type": "json_schema",
        "json_schema": schema if asked.strict is None else {**schema, "strict": asked.strict},
    }
