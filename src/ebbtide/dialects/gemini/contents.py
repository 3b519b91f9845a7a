"""The turns and parts of a generateContent body read into the neutral form; what has no place is refused.

Calls of functions need no ids there: they get one by their number, and a response without one belongs to the first
call of its name that has none yet.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from ebbtide.dialects.conversation import Image, Message, Part, Role, Text, Thought, ToolCall, ToolResult, cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.gemini.members import Members

_ROLES: Final[dict[str, Role]] = {"user": "user", "function": "user", "tool": "user", "model": "assistant"}
_CONTENT: Final = frozenset({"role", "parts"})
_NOT_HERE: Final = "the model's server takes no such content here"
_encode = msgspec.json.Encoder().encode


class ContentReader:
    """Remembers which functions were called: a response may name its call by its name alone."""

    def __init__(self) -> None:
        self._calls = 0
        self._waiting: list[ToolCall] = []
        self._names: dict[str, str] = {}

    def system(self, given: Members | None) -> Iterator[Message]:
        """The system instruction, as the message that comes first; its role says nothing."""
        if given is None:
            return
        given.only(_CONTENT)
        parts = tuple(
            part for part in (self._part("system", one) for one in given.objects("parts")) if part != Text("")
        )
        if parts:
            yield Message("system", parts, given.path)

    def messages(self, contents: Iterator[Members]) -> Iterator[Message]:
        """The turns; the results of functions in a user's turn are messages of their own."""
        for content in contents:
            content.only(_CONTENT)
            role = content.word("role", _ROLES) or "user"
            parts = [self._part(role, part) for part in content.objects("parts")]
            told = groupby(parts, key=lambda part: isinstance(part, ToolResult))
            turns = [Message("tool" if results else role, tuple(group), content.path) for results, group in told]
            yield from turns or [Message(role, (), content.path)]

    def _part(self, role: Role, part: Members) -> Part:
        kinds = [name for name in part if name not in ("thought", "thoughtSignature")]
        if len(kinds) != 1:
            raise invalid(part.path, "must hold one of text, inlineData, fileData, functionCall, functionResponse")
        kind, assistant = kinds[0], role == "assistant"
        if kind == "text":
            return _text(part, assistant=assistant)
        if kind == "functionCall" and assistant:
            return self._call(part)
        if part.flag("thought") or "thoughtSignature" in part:
            raise cannot(part.at("thought" if "thought" in part else "thoughtSignature"), _NOT_HERE)
        inner = part.inner(kind) if role == "user" else None
        if inner is not None and kind == "functionResponse":
            return self._result(inner)
        if inner is not None and kind in _IMAGES:
            return _IMAGES[kind](inner)
        raise cannot(part.at(kind), _NOT_HERE)

    def _call(self, part: Members) -> ToolCall:
        call = part.inner("functionCall")
        assert call is not None
        call.only(frozenset({"id", "name", "args"}))
        arguments = {} if call.get("args") is None else call.get("args")
        if not isinstance(arguments, dict):
            raise invalid(call.at("args"), "expected object")
        self._calls += 1
        name, given = call.required("name"), call.text("id")
        call_id = given or f"call_{self._calls}"
        read = ToolCall(call_id, name, arguments, part.text("thoughtSignature"), path=call.path)
        self._waiting.append(read)
        self._names[read.id] = name
        return read

    def _result(self, response: Members) -> ToolResult:
        response.only(frozenset({"id", "name", "response"}))
        name, given = response.required("name"), response.text("id")
        called = next((c for c in self._waiting if (c.id == given if given else c.name == name)), None)
        if called is None and given not in self._names:
            raise invalid(response.path, "no call of this function comes before")
        if called is not None:
            self._waiting.remove(called)
        call_id = given or (called.id if called is not None else "")
        text, failed = _outcome(response)
        spelled = _encode(response.get("response")).decode() if failed else None
        return ToolResult(call_id, (Text(text),), self._names[call_id], failed, response.path, spelled)


def _text(part: Members, *, assistant: bool) -> Text | Thought:
    text, signature = part.text("text") or "", part.text("thoughtSignature")
    if part.flag("thought"):
        if not assistant:
            raise cannot(part.at("thought"), _NOT_HERE)
        return Thought(text, signature, path=part.path)
    if signature is not None:
        raise cannot(part.at("thoughtSignature"), "the model's server does not take another vendor's signature")
    return Text(text)


def _outcome(response: Members) -> tuple[str, bool]:
    """What a function gave back, as text, and whether that is an error."""
    said = response.get("response")
    if said is None:
        return "", False
    if not isinstance(said, dict):
        raise invalid(response.at("response"), "expected object")
    if len(said) == 1:
        ((name, value),) = said.items()
        if name in ("output", "result", "error"):
            return (value if isinstance(value, str) else _encode(value).decode()), name == "error"
    return _encode(said).decode(), False


def _inline(data: Members) -> Image:
    data.only(frozenset({"mimeType", "data"}))
    kind = data.required("mimeType")
    if not kind.startswith("image/"):
        raise cannot(data.at("mimeType"), "the model's server takes images alone")
    return Image(kind, _base64(data), path=data.path)


def _base64(data: Members) -> str:
    """The bytes in base64's own alphabet: clients send its URL-safe one too, and leave out the padding."""
    text = data.required("data").rstrip("=").translate({ord("-"): "+", ord("_"): "/"})
    text += "=" * (-len(text) % 4)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(data.at("data"), "not base64") from None
    return text


def _file(data: Members) -> Image:
    data.only(frozenset({"mimeType", "fileUri"}))
    kind, uri = data.text("mimeType"), data.required("fileUri")
    if kind is not None and not kind.startswith("image/"):
        raise cannot(data.at("mimeType"), "the model's server takes images alone")
    if not uri.startswith("https://"):
        raise cannot(data.at("fileUri"), "must be an https URL of an image")
    return Image(url=uri, path=data.at("fileUri"))


_IMAGES: Final = {"inlineData": _inline, "fileData": _file}
