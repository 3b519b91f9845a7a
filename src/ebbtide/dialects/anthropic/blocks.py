"""The messages and content blocks of a Messages body read into the neutral form; what has no place is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from ebbtide.dialects.conversation import Image, Message, Part, Role, Text, Thought, ToolCall, ToolResult, cannot
from ebbtide.dialects.fields import invalid, word_of

_NO_PARAMETER: Final = "the model's server has no such parameter"
_ROLES: Final[Mapping[object, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
# What may stand in whose turn.
_PLACES: Final[Mapping[Role, frozenset[str]]] = {
    "system": frozenset({"text"}),
    "user": frozenset({"text", "image", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
    "tool": frozenset({"text", "image"}),
}


class BlockReader:
    """Remembers the names of the tools that were called: a result has only the call's id."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}

    def system(self, given: object) -> Iterator[Message]:
        """The system prompt, as the message that comes first."""
        if parts := tuple(self._blocks("system", "system", given)):
            yield Message("system", parts, "system")

    def messages(self, given: Sequence[Mapping[str, object]]) -> Iterator[Message]:
        """The turns; the results of tools in a user's turn are messages of their own."""
        for index, message in enumerate(given):
            path = f"messages[{index}]"
            role = _ROLES.get(word_of(message.get("role")))
            if role is None:
                raise invalid(f"{path}.role", "must be user or assistant")
            known(path, message, frozenset({"role", "content"}))
            parts = self._blocks(role, f"{path}.content", message.get("content"))
            told = groupby(parts, key=lambda part: isinstance(part, ToolResult))
            turns = [Message("tool" if results else role, tuple(group), path) for results, group in told]
            yield from turns or [Message(role, (), path)]

    def _blocks(self, role: Role, path: str, given: object) -> Iterator[Part]:
        """A turn's content; empty text says nothing and is left out."""
        if isinstance(given, str):
            if given:
                yield Text(given)
            return
        if given is None and role in ("system", "tool"):
            return
        if not isinstance(given, list):
            raise invalid(path, "expected string or array")
        for index, block in enumerate(given):
            place = f"{path}[{index}]"
            if not isinstance(block, dict):
                raise invalid(place, "expected object")
            part = self._part(role, place, block)
            if part != Text(""):
                yield part

    def _part(self, role: Role, path: str, block: Mapping[str, object]) -> Part:
        kind = word_of(block.get("type"))
        if kind not in _PLACES[role]:
            raise cannot(f"{path}.type", "the model's server takes no such content here")
        match kind:
            case "text":
                known(path, block, frozenset({"type", "text"}))
                return Text(text_of(path, block, "text"))
            case "image":
                return _image(path, block)
            case "tool_use":
                return self._call(path, block)
            case "tool_result":
                return self._result(path, block)
            case "thinking":
                known(path, block, frozenset({"type", "thinking", "signature"}))
                signature = text_of(path, block, "signature") if block.get("signature") is not None else ""
                return Thought(text_of(path, block, "thinking"), signature or None, path=path)
            case _:
                known(path, block, frozenset({"type", "data"}))
                return Thought(redacted=text_of(path, block, "data"), path=path)

    def _call(self, path: str, block: Mapping[str, object]) -> ToolCall:
        known(path, block, frozenset({"type", "id", "name", "input"}))
        arguments = block.get("input")
        if not isinstance(arguments, dict):
            raise invalid(f"{path}.input", "expected object")
        call = ToolCall(text_of(path, block, "id"), text_of(path, block, "name"), arguments, path=path)
        self._called[call.id] = call.name
        return call

    def _result(self, path: str, block: Mapping[str, object]) -> ToolResult:
        known(path, block, frozenset({"type", "tool_use_id", "content", "is_error"}))
        failed = block.get("is_error")
        if failed is not None and not isinstance(failed, bool):
            raise invalid(f"{path}.is_error", "expected boolean")
        call_id = text_of(path, block, "tool_use_id")
        parts = self._blocks("tool", f"{path}.content", block.get("content"))
        given = tuple(part for part in parts if isinstance(part, (Text, Image)))
        return ToolResult(call_id, given, self._called.get(call_id), bool(failed), path)


def _image(path: str, block: Mapping[str, object]) -> Image:
    known(path, block, frozenset({"type", "source"}))
    source = block.get("source")
    if not isinstance(source, dict):
        raise invalid(f"{path}.source", "expected object")
    place = f"{path}.source"
    match source.get("type"):
        case "base64":
            known(place, source, frozenset({"type", "media_type", "data"}))
            return Image(text_of(place, source, "media_type"), text_of(place, source, "data"), path=place)
        case "url":
            known(place, source, frozenset({"type", "url"}))
            url = text_of(place, source, "url")
            if not url.startswith("https://"):
                raise cannot(f"{place}.url", "must be an https URL")
            return Image(url=url, path=f"{place}.url")
        case _:
            raise cannot(f"{place}.type", "the model's server takes base64 and url alone")


def known(path: str, given: Mapping[str, object], members: frozenset[str]) -> None:
    """Raises InvalidRequest for a member that is none of these, unless it is null or empty."""
    for name, value in given.items():
        if name not in members and value not in (None, [], {}):
            raise cannot(f"{path}.{name[:100]}".removeprefix("."), _NO_PARAMETER)


def text_of(path: str, given: Mapping[str, object], name: str) -> str:
    """The string that a member is. Raises InvalidRequest."""
    value = given.get(name)
    if not isinstance(value, str):
        raise invalid(f"{path}.{name}", "expected string")
    return value
