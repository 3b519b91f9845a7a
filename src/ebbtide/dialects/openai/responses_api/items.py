"""The input items of a Responses request read into the neutral form's messages.

Items that the assistant made one after another (reasoning, a message, calls) are one turn of it, as chats have it. What
has no place is refused by its path; an item's id and status tell where it came from and nothing to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ebbtide.dialects.conversation import Image, Message, Part, Role, Text, Thought, ToolCall, ToolResult, cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.openai.messages import arguments_of, image_at, known, object_of, signature_of, text_of
from ebbtide.dialects.openai.responses_api.sealed import open_sealed

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_OWN: Final = frozenset({"type", "id", "status"})  # members of every item


def read_input(given: str | Sequence[dict[str, object]]) -> tuple[Message, ...]:
    """Raises InvalidRequest naming the field."""
    if isinstance(given, str):
        return (Message("user", (Text(given),) if given else (), "input"),)
    return tuple(_Reader().messages(given))


class _Reader:
    """Gathers the assistant's turn that is open, and remembers the names of the tools that were called."""

    def __init__(self) -> None:
        self._called: dict[str, str] = {}
        self._turn: list[Part] = []
        self._turn_path = ""
        self._makers: Mapping[str, Callable[[str, Mapping[str, object]], Part | None]] = {
            "function_call": self._call,
            "reasoning": _thought,
        }

    def messages(self, given: Sequence[dict[str, object]]) -> Iterator[Message]:
        for index, item in enumerate(given):
            path = f"input[{index}]"
            kind = str(item.get("type") or "message")
            if kind in self._makers:
                self._add(path, self._makers[kind](path, item))
            elif kind == "message" and item.get("role") == "assistant":
                if self._turn and isinstance(self._turn[-1], Text):
                    yield from self._closed()
                for part in _content(path, item):
                    self._add(path, part)
            else:
                yield from self._closed()
                yield self._result(path, item) if kind == "function_call_output" else _message(path, kind, item)
        yield from self._closed()

    def _add(self, path: str, part: Part | None) -> None:
        if part is None:
            return
        self._turn_path = self._turn_path or path
        self._turn.append(part)

    def _closed(self) -> Iterator[Message]:
        if self._turn:
            yield Message("assistant", tuple(self._turn), self._turn_path)
        self._turn, self._turn_path = [], ""

    def _call(self, path: str, item: Mapping[str, object]) -> ToolCall:
        known(path, item, _OWN | {"call_id", "name", "arguments", "extra_content"})
        read = ToolCall(
            id=text_of(f"{path}.call_id", item.get("call_id")),
            name=text_of(f"{path}.name", item.get("name")),
            arguments=arguments_of(f"{path}.arguments", item.get("arguments")),
            signature=signature_of(f"{path}.extra_content", item.get("extra_content")),
            path=path,
        )
        self._called[read.id] = read.name
        return read

    def _result(self, path: str, item: Mapping[str, object]) -> Message:
        known(path, item, _OWN | {"call_id", "output"})
        call_id = text_of(f"{path}.call_id", item.get("call_id"))
        parts = tuple(_output(f"{path}.output", item.get("output")))
        return Message("tool", (ToolResult(call_id, parts, self._called.get(call_id), path=f"{path}.call_id"),), path)


def _message(path: str, kind: str, item: Mapping[str, object]) -> Message:
    if kind != "message":
        raise cannot(f"{path}.type", "the model's server takes no such item")
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        raise cannot(f"{path}.role", "must be system, developer, user or assistant")
    return Message(role, tuple(_content(path, item)), path)


def _content(path: str, item: Mapping[str, object]) -> Iterator[Text | Image]:
    """A message's content; empty text says nothing and is left out."""
    known(path, item, _OWN | {"role", "content"})
    given = item.get("content")
    if isinstance(given, str):
        if given:
            yield Text(given)
        return
    if not isinstance(given, list):
        raise invalid(f"{path}.content", "expected string or array")
    role = item.get("role")
    for index, part in enumerate(given):
        place = f"{path}.content[{index}]"
        read = _part(place, object_of(place, part), images=role == "user", answers=role == "assistant")
        if read is not None:
            yield read


def _part(path: str, part: Mapping[str, object], *, images: bool, answers: bool = False) -> Text | Image | None:
    kind = part.get("type")
    if kind == "input_text" or (kind == "output_text" and answers):
        known(path, part, frozenset({"type", "text"}))
        text = text_of(f"{path}.text", part.get("text"))
        return Text(text) if text else None
    if kind == "input_image" and images:
        known(path, part, frozenset({"type", "image_url", "detail"}))
        return image_at(f"{path}.image_url", part.get("image_url"), part.get("detail"))
    raise cannot(f"{path}.type", "the model's server takes no such content here")


def _output(path: str, given: object) -> Iterator[Text | Image]:
    if isinstance(given, str):
        if given:
            yield Text(given)
        return
    if not isinstance(given, list):
        raise invalid(path, "expected string or array")
    for index, part in enumerate(given):
        place = f"{path}[{index}]"
        read = _part(place, object_of(place, part), images=True)
        if read is not None:
            yield read


def _thought(path: str, item: Mapping[str, object]) -> Thought | None:
    known(path, item, _OWN | {"summary", "content", "encrypted_content"})
    text = _texts(f"{path}.content", item.get("content"), "reasoning_text")
    text = text or _texts(f"{path}.summary", item.get("summary"), "summary_text")
    sealed = item.get("encrypted_content")
    if sealed is not None:
        return open_sealed(f"{path}.encrypted_content", text_of(f"{path}.encrypted_content", sealed), text)
    return Thought(text, path=path) if text else None


def _texts(path: str, given: object, kind: str) -> str:
    if given is None:
        return ""
    if not isinstance(given, list):
        raise invalid(path, "expected array")
    texts = []
    for index, part in enumerate(given):
        place = f"{path}[{index}]"
        if object_of(place, part).get("type") != kind:
            raise invalid(f"{place}.type", f"must be {kind}")
        known(place, part, frozenset({"type", "text"}))
        texts.append(text_of(f"{place}.text", part.get("text")))
    return "".join(texts)
