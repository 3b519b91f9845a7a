"""generateContent and batchEmbedContents requests written from the neutral form; what has no words there is refused.

Published at https://ai.google.dev/api/generate-content; names as in the official SDK's types.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ebbtide.dialects.conversation import (
    Conversation,
    Effort,
    Embed,
    Image,
    Message,
    Part,
    Text,
    Thought,
    Tool,
    ToolCall,
    ToolResult,
    cannot,
)

_EFFORTS: Final[dict[Effort, dict[str, object]]] = {
    "none": {"thinkingBudget": 0},
    "minimal": {"thinkingLevel": "MINIMAL"},
    "low": {"thinkingLevel": "LOW"},
    "medium": {"thinkingLevel": "MEDIUM"},
    "high": {"thinkingLevel": "HIGH"},
    "xhigh": {"thinkingLevel": "XHIGH"},
}
_ROLES: Final = {"user": "user", "tool": "user", "assistant": "model"}
_NO_PARAMETER: Final = "the model's server has no such parameter"


def write_request(asked: Conversation) -> bytes:
    """The request's body; the model and whether to stream are in the URL. Raises InvalidRequest."""
    _refuse(asked)
    system, turns = _split(asked.messages)
    members = {
        "systemInstruction": {"parts": [{"text": part.text} for part in system]} if system else None,
        "contents": list(_contents(turns)),
        "tools": [{"functionDeclarations": [_tool(tool) for tool in asked.tools]}] if asked.tools else None,
        "toolConfig": _tool_config(asked),
        "generationConfig": _generation_config(asked),
    }
    return msgspec.json.encode({name: value for name, value in members.items() if value is not None})


def write_embed(asked: Embed, model: str) -> bytes:
    """The body of batchEmbedContents, which takes one text as well as many; `model` with its `models/`."""
    requests = []
    for text in asked.texts:
        request: dict[str, object] = {"model": model, "content": {"parts": [{"text": text}]}}
        if asked.dimensions is not None:
            request["outputDimensionality"] = asked.dimensions
        requests.append(request)
    return msgspec.json.encode({"requests": requests})


def _refuse(asked: Conversation) -> None:
    if asked.user is not None:
        raise cannot(asked.user[0], _NO_PARAMETER)
    if asked.continues is not None:
        raise cannot(asked.continues, "the model's server does not go on from an assistant's message")
    if asked.parallel_tools is False:
        raise cannot("parallel_tool_calls", "the model's server cannot keep calls apart")
    if asked.effort is not None and asked.effort not in _EFFORTS:
        raise cannot("reasoning_effort", f"must be one of {', '.join(_EFFORTS)}")
    for index, tool in enumerate(asked.tools):
        if tool.strict:
            raise cannot(f"tools[{index}].function.strict", _NO_PARAMETER)


def _split(messages: Sequence[Message]) -> tuple[list[Text], Sequence[Message]]:
    """The system text before all else, and the turns; later system messages would change their place."""
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    for message in messages[leading:]:
        if message.role == "system":
            raise cannot(f"{message.path}.role", "the model's server takes system messages before all others")
    return [part for message in messages[:leading] for part in message.parts if isinstance(part, Text)], messages[
        leading:
    ]


def _contents(messages: Iterable[Message]) -> Iterator[dict[str, object]]:
    """Results of tools that were called together go back in one turn."""
    for role, group in groupby(messages, key=lambda message: message.role):
        if role == "tool":
            yield {"role": "user", "parts": [_part(part) for message in group for part in message.parts]}
            continue
        for message in group:
            parts = [_part(part) for part in message.parts]
            yield {"role": _ROLES[role], "parts": parts or [{"text": ""}]}


def _part(part: Part) -> dict[str, object]:
    match part:
        case Text():
            return {"text": part.text}
        case Image():
            return _image(part)
        case ToolCall(id=call_id, name=name, arguments=arguments, signature=signature):
            call: dict[str, object] = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
            return call if signature is None else {**call, "thoughtSignature": signature}
        case ToolResult():
            return _result(part)
        case Thought():
            raise cannot(part.path, "the model's server takes no reasoning back")


def _result(part: ToolResult) -> dict[str, object]:
    if part.name is None:
        raise cannot(part.path, "no tool call of this id comes before")
    member = "error" if part.failed else "output"
    return {"functionResponse": {"id": part.call_id, "name": part.name, "response": {member: part.text}}}


def _image(image: Image) -> dict[str, object]:
    image.refuse_detail()
    if image.url is None:
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    kind = mimetypes.guess_type(urlsplit(image.url).path, strict=False)[0]
    if kind is None or not kind.startswith("image/"):
        raise cannot(image.path, "must end in an image's extension, or be a data URL")
    return {"fileData": {"mimeType": kind, "fileUri": image.url}}


def _tool(tool: Tool) -> dict[str, object]:
    written: dict[str, object] = {"name": tool.name}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.schema is not None:
        written["parametersJsonSchema"] = tool.schema
    return written


def _tool_config(asked: Conversation) -> dict[str, object] | None:
    choice = asked.tool_choice
    if choice is None:
        return None
    config: dict[str, object] = {"mode": {"auto": "AUTO", "none": "NONE"}.get(choice.mode, "ANY")}
    if choice.name is not None:
        config["allowedFunctionNames"] = [choice.name]
    return {"functionCallingConfig": config}


def _generation_config(asked: Conversation) -> dict[str, object] | None:
    sampling, form = asked.sampling, asked.format
    config = {
        "temperature": sampling.temperature,
        "topP": sampling.top_p,
        "topK": sampling.top_k,
        "seed": sampling.seed,
        "presencePenalty": sampling.presence_penalty,
        "frequencyPenalty": sampling.frequency_penalty,
        "candidateCount": asked.count,
        "maxOutputTokens": asked.max_tokens,
        "stopSequences": list(asked.stop) or None,
        "responseMimeType": None if form is None else "application/json",
        "responseJsonSchema": None if form is None else form.schema,
        "thinkingConfig": _thinking(asked),
    }
    return {name: value for name, value in config.items() if value is not None} or None


def _thinking(asked: Conversation) -> dict[str, object] | None:
    if asked.thinking_tokens is not None:
        return {"thinkingBudget": asked.thinking_tokens, "includeThoughts": True}
    return None if asked.effort is None else _EFFORTS[asked.effort]
