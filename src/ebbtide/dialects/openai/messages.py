"""The messages of a chat completions body read into the neutral form; a member without a place is refused.

Beside OpenAI's own members an assistant's message may bring back what answers of other vendors came with:
`reasoning_content`, `thinking_blocks` and a tool call's `extra_content.google.thought_signature`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from ebbtide.dialects.conversation import Image, Message, Part, Role, Text, Thought, ToolCall, ToolResult, cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.values import check_json
from ebbtide.errors import InvalidRequest

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_MEMBERS: Final[Mapping[Role, frozenset[str]]] = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", "reasoning_content", "thinking_blocks"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_DETAILS: Final[Mapping[str, Literal["low", "high"]]] = {"low": "low", "high": "high"}
_DATA_URL: Final = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+);base64,(?P<data>[A-Za-z0-9+/]*={0,2})")


def read_messages(given: Sequence[dict[str, object]]) -> tuple[Message, ...]:
    """Raises InvalidRequest naming the field."""
    return tuple(_Reader().messages(given))


class _Reader:
    """Remembers the names of the tools that were called: a result has only the call's id."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}

    def messages(self, given: Sequence[dict[str, object]]) -> Iterator[Message]:
        for index, message in enumerate(given):
            path = f"messages[{index}]"
            role = _ROLES.get(str(message.get("role")))
            if role is None:
                raise cannot(f"{path}.role", "must be system, developer, user, assistant or tool")
            known(path, message, _MEMBERS[role])
            yield Message(role, tuple(self._parts(role, path, message)), path)

    def _parts(self, role: Role, path: str, message: Mapping[str, object]) -> Iterator[Part]:
        if role == "tool":
            yield self._result(path, message)
        elif role == "assistant":
            yield from _thoughts(path, message)
            yield from content(path, message.get("content"), images=False)
            yield from self._calls(path, message.get("tool_calls"))
        else:
            yield from content(path, message.get("content"), images=role == "user")

    def _result(self, path: str, message: Mapping[str, object]) -> ToolResult:
        call_id = text_of(f"{path}.tool_call_id", message.get("tool_call_id"))
        parts = tuple(content(path, message.get("content"), images=False))
        return ToolResult(call_id, parts, self._called.get(call_id), path=f"{path}.tool_call_id")

    def _calls(self, path: str, given: object) -> Iterator[ToolCall]:
        if given is None:
            return
        if not isinstance(given, list):
            raise invalid(f"{path}.tool_calls", "expected array")
        for index, call in enumerate(given):
            read = _call(f"{path}.tool_calls[{index}]", call)
            self._called[read.id] = read.name
            yield read


def content(path: str, given: object, *, images: bool) -> Iterator[Text | Image]:
    """A message's content; empty text says nothing and is left out."""
    if isinstance(given, str):
        if given:
            yield Text(given)
        return
    if given is None:
        return
    if not isinstance(given, list):
        raise invalid(f"{path}.content", "expected string or array")
    for index, part in enumerate(given):
        place = f"{path}.content[{index}]"
        kind = object_of(place, part).get("type")
        if kind == "text":
            known(place, part, frozenset({"type", "text"}))
            if text := text_of(f"{place}.text", part.get("text")):
                yield Text(text)
        elif kind == "image_url" and images:
            known(place, part, frozenset({"type", "image_url"}))
            yield _image(f"{place}.image_url", part.get("image_url"))
        else:
            raise cannot(f"{place}.type", "the model's server takes no such content here")


def _image(path: str, given: object) -> Image:
    image = object_of(path, given)
    known(path, image, frozenset({"url", "detail"}))
    return image_at(f"{path}.url", image.get("url"), image.get("detail"))


def image_at(path: str, given: object, detail: object) -> Image:
    """The image that a URL tells, an https or a data URL."""
    closely = _DETAILS.get(str(detail))
    if closely is None and detail not in (None, "auto"):
        raise cannot(f"{path.rpartition('.')[0]}.detail", "the model's server takes auto, low or high")
    url = text_of(path, given)
    if url.startswith("data:"):
        found = _DATA_URL.fullmatch(url)
        if found is None:
            raise invalid(path, "expected data:<type>;base64,<data>")
        return Image(media_type=found["type"], data=found["data"], detail=closely, path=path)
    if not url.startswith("https://"):
        raise cannot(path, "must be an https or a data URL")
    return Image(url=url, detail=closely, path=path)


def _call(path: str, given: object) -> ToolCall:
    call = object_of(path, given)
    known(path, call, frozenset({"id", "type", "function", "index", "extra_content"}))
    if call.get("type") not in (None, "function"):
        raise cannot(f"{path}.type", "the model's server takes calls of type function")
    function = object_of(f"{path}.function", call.get("function"))
    known(f"{path}.function", function, frozenset({"name", "arguments"}))
    return ToolCall(
        id=text_of(f"{path}.id", call.get("id")),
        name=text_of(f"{path}.function.name", function.get("name")),
        arguments=arguments_of(f"{path}.function.arguments", function.get("arguments")),
        signature=signature_of(f"{path}.extra_content", call.get("extra_content")),
        path=path,
    )


def arguments_of(path: str, given: object) -> dict[str, object]:
    text = text_of(path, given)
    if not text.strip():
        return {}
    try:
        arguments = check_json(text.encode("utf-8", "replace"))
    except InvalidRequest:
        raise invalid(path, "must be a JSON object in a string") from None
    if not isinstance(arguments, dict):
        raise invalid(path, "must be a JSON object in a string")
    return arguments


def signature_of(path: str, given: object) -> str | None:
    if given is None:
        return None
    extra = object_of(path, given)
    known(path, extra, frozenset({"google"}))
    google = object_of(f"{path}.google", extra.get("google"))
    known(f"{path}.google", google, frozenset({"thought_signature"}))
    return text_of(f"{path}.google.thought_signature", google.get("thought_signature"))


def _thoughts(path: str, message: Mapping[str, object]) -> Iterator[Thought]:
    blocks, plain = message.get("thinking_blocks"), message.get("reasoning_content")
    if blocks is None:
        if plain is not None and (text := text_of(f"{path}.reasoning_content", plain)):
            yield Thought(text, path=f"{path}.reasoning_content")
        return
    if not isinstance(blocks, list):
        raise invalid(f"{path}.thinking_blocks", "expected array")
    thoughts = [_thought(f"{path}.thinking_blocks[{index}]", block) for index, block in enumerate(blocks)]
    if plain is not None and plain != "".join(thought.text for thought in thoughts):
        raise cannot(f"{path}.reasoning_content", "must be what thinking_blocks say")
    yield from thoughts


def _thought(path: str, given: object) -> Thought:
    block = object_of(path, given)
    if block.get("type") == "redacted_thinking":
        known(path, block, frozenset({"type", "data"}))
        return Thought(redacted=text_of(f"{path}.data", block.get("data")), path=path)
    if block.get("type") != "thinking":
        raise invalid(f"{path}.type", "must be thinking or redacted_thinking")
    known(path, block, frozenset({"type", "thinking", "signature"}))
    signature = text_of(f"{path}.signature", block.get("signature"))
    return Thought(text_of(f"{path}.thinking", block.get("thinking")), signature, path=path)


def known(path: str, given: Mapping[str, object], members: frozenset[str]) -> None:
    """Raises InvalidRequest for a member that is none of these, unless it is null or empty."""
    for name, value in given.items():
        if name not in members and value not in (None, [], {}):
            raise cannot(f"{path}.{name[:100]}", "the model's server has no such parameter")


def object_of(path: str, given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise invalid(path, "expected object")
    return given


def text_of(path: str, given: object) -> str:
    if not isinstance(given, str):
        raise invalid(path, "expected string")
    return given
