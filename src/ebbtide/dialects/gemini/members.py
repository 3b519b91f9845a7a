"""Members of the API's objects as protobuf's JSON spells them: camelCase or snake_case alike, null as left out.

Whatever is asked for is checked and named by its path as the caller wrote it; what nobody asks for is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from ebbtide.dialects.conversation import cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.values import MAX_TOKENS
from ebbtide.errors import InvalidRequest

T = TypeVar("T")
_NO_PARAMETER: Final = "the model's server has no such parameter"


class Members:
    """One object. Raises InvalidRequest for what is none."""

    def __init__(self, path: str, given: object) -> None:
        if not isinstance(given, dict):
            raise invalid(path, "expected object") if path else InvalidRequest("The body must be a JSON object")
        self.path = path
        self._given = {camel(name): (name, value) for name, value in given.items() if value is not None}

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def at(self, name: str) -> str:
        """The path of a member."""
        spelled = self._given[name][0] if name in self._given else name
        return f"{self.path}.{spelled[:100]}".removeprefix(".")

    def get(self, name: str) -> object:
        """A member as it is; None where it is left out."""
        return self._given[name][1] if name in self._given else None

    def only(self, names: frozenset[str], problem: str = _NO_PARAMETER) -> None:
        """Raises InvalidRequest for a member that is none of these."""
        for name in self._given:
            if name not in names:
                raise cannot(self.at(name), problem)

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise invalid(self.at(name), "expected string")
        return value

    def required(self, name: str) -> str:
        """A text that must be there and say something."""
        value = self.text(name)
        if not value:
            raise invalid(self.at(name), "required: a string")
        return value

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise invalid(self.at(name), "expected boolean")
        return bool(value)

    def number(self, name: str) -> float | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise invalid(self.at(name), "expected number")
        return value

    def whole(self, name: str, low: int, high: int = MAX_TOKENS) -> int | None:
        """An integer, which may be told as a string or as 40.0."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) and len(value) <= 20 and value.removeprefix("-").isdecimal() and value.isascii():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise invalid(self.at(name), "expected integer")
        if not low <= value <= high:
            raise invalid(self.at(name), f"must be between {low} and {high}")
        return value

    def word(self, name: str, words: Mapping[str, T]) -> T | None:
        """What one of a few words means."""
        value = self.text(name)
        if value is None:
            return None
        if value not in words:
            raise cannot(self.at(name), f"must be one of {', '.join(words)}")
        return words[value]

    def inner(self, name: str) -> Members | None:
        """An object within."""
        return Members(self.at(name), self._given[name][1]) if name in self._given else None

    def each(self, name: str) -> Iterator[tuple[str, object]]:
        """The elements of an array, each with its path."""
        value = self.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            raise invalid(self.at(name), "expected array")
        path = self.at(name)
        for index, element in enumerate(value):
            yield f"{path}[{index}]", element

    def objects(self, name: str) -> Iterator[Members]:
        """The elements of an array of objects."""
        for path, element in self.each(name):
            yield Members(path, element)

    def texts(self, name: str) -> tuple[str, ...]:
        """The elements of an array of strings."""
        texts = []
        for path, element in self.each(name):
            if not isinstance(element, str):
                raise invalid(path, "expected string")
            texts.append(element)
        return tuple(texts)


def camel(name: str) -> str:
    """A member's name in camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest) if head else name
