"""A Responses request written from the neutral form, for servers that speak nothing else; never to be stored.

What the API cannot say is refused by its path. Functions are told to be strict or not, for it assumes that they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

_encode = msgspec.json.Encoder().encode
_NO_PARAMETER: Final = "the model's server has no such parameter"


def write_request(asked: Conversation, sent: Sent) -> bytes:
    """The request's body. Raises InvalidRequest for what has no words there."""
    _refuse(asked)
    choice = asked.tool_choice
    members: dict[str, object] = {
        "model": sent.model,
        "input": [item for message in asked.messages for item in _items(message)],
        "max_output_tokens": asked.max_tokens,
        "tools": [_tool(tool) for tool in asked.tools] or None,
        "tool_choice": choice and ({"type": "function", "name": choice.name} if choice.name else choice.mode),
        "parallel_tool_calls": asked.parallel_tools if asked.tools else None,
        "temperature": asked.sampling.temperature,
        "top_p": asked.sampling.top_p,
        "text": _text(asked),
        "reasoning": None if asked.effort is None else {"effort": asked.effort},
        "service_tier": asked.tier,
        "store": False,
        "stream": True if sent.stream else None,
    }
    if asked.user is not None:
        members["safety_identifier" if asked.user[0] == "safety_identifier" else "user"] = asked.user[1]
    return _encode({name: value for name, value in members.items() if value is not None})


def _refuse(asked: Conversation) -> None:
    sampling = asked.sampling
    for field in ("top_k", "seed", "presence_penalty", "frequency_penalty"):
        if getattr(sampling, field) is not None:
            raise cannot(field, _NO_PARAMETER)
    if asked.stop:
        raise cannot("stop", _NO_PARAMETER)
    if asked.count not in (None, 1):
        raise cannot("n", "the model's server gives one choice")
    if asked.continues is not None:
        raise cannot(asked.continues, "the model's server does not go on from an assistant's message")
    if asked.thinking_tokens is not None:
        raise cannot("thinking", _NO_PARAMETER)


def _items(message: Message) -> Iterator[dict[str, object]]:
    """A message as items, in the order of its parts; text and images beside each other are one."""
    said: list[Text | Image] = []
    for part in message.parts:
        if isinstance(part, (Text, Image)):
            said.append(part)
            continue
        if said:
            yield _message(message, said)
            said = []
        yield _item(part)
    if said or not message.parts:
        yield _message(message, said)


def _message(message: Message, said: Iterable[Text | Image]) -> dict[str, object]:
    texts = [part.text for part in said if isinstance(part, Text)]
    if message.role == "assistant":
        return {"role": "assistant", "content": "".join(texts)}
    return {"role": message.role, "content": [_part(part) for part in said]}


def _item(part: Part) -> dict[str, object]:
    match part:
        case ToolCall(id=name, name=tool, arguments=arguments):
            if part.signature is not None:
                raise cannot(part.path, "the model's server does not take another vendor's signature")
            return {
                "type": "function_call",
                "call_id": name,
                "name": tool,
                "arguments": _encode(arguments).decode(),
            }
        case ToolResult(call_id=name):
            result = part.unflagged()
            plain = len(result.parts) < 2 and all(isinstance(inner, Text) for inner in result.parts)
            output: object = result.text if plain else [_part(inner) for inner in result.parts]
            return {"type": "function_call_output", "call_id": name, "output": output}
        case Thought():
            raise cannot(part.path, "the model's server does not take reasoning back")
        case _:
            return _part(part)


def _part(part: Text | Image) -> dict[str, object]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}


def _tool(tool: Tool) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object", "properties": {}}
    written: dict[str, object] = {
        "type": "function",
        "name": tool.name,
        "parameters": schema if tool.schema is None else tool.schema,
        "strict": bool(tool.strict),
    }
    return written if tool.description is None else {**written, "description": tool.description}


def _text(asked: Conversation) -> dict[str, object] | None:
    wanted = asked.format
    if wanted is None:
        return None
    if wanted.schema is None:
        return {"format": {"type": "json_object"}}
    strict = {} if wanted.strict is None else {"strict": wanted.strict}
    return {"format": {"type": "json_schema", "name": wanted.name or "answer", "schema": wanted.schema, **strict}}
