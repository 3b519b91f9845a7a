"""Parameters as data, of the query and of headers: read by the handlers, described by openapi.py. Unknown ones are
ignored.

A bad value raises InvalidRequest naming the parameter; of a repeated one in the query the last counts, and an empty one
is not given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Generic, TypeVar

from starlette.requests import Request

from ebbtide.errors import InvalidRequest

Place = TypeVar("Place")


@dataclass(frozen=True)
class IntegerParameter:
    """A whole number between two bounds, both included."""

    name: str
    default: int
    low: int
    high: int
    about: str

    def read(self, request: Request) -> int:
        text = request.query_params.get(self.name)
        if not text:
            return self.default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18 and self.low <= int(text) <= self.high):
            raise InvalidRequest(
                f"'{self.name}' must be a whole number between {self.low} and {self.high}", param=self.name
            )
        return int(text)

    def schema(self) -> dict[str, object]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high, "default": self.default}


@dataclass(frozen=True)
class ChoiceParameter:
    """One of a few words."""

    name: str
    default: str
    choices: tuple[str, ...]
    about: str

    def read(self, request: Request) -> str:
        text = request.query_params.get(self.name) or self.default
        if text not in self.choices:
            raise InvalidRequest(f"'{self.name}' must be one of: {', '.join(self.choices)}", param=self.name)
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.choices), "default": self.default}


@dataclass(frozen=True)
class TextParameter:
    """Any text without a NUL; None when not given."""

    name: str
    about: str

    def read(self, request: Request) -> str | None:
        text = request.query_params.get(self.name) or None
        if text is not None and "\0" in text:
            raise InvalidRequest(f"'{self.name}' must not contain a NUL character", param=self.name)
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string"}


@dataclass(frozen=True)
class OneOfParameter:
    """One of a few words; None when not given."""

    name: str
    choices: tuple[str, ...]
    about: str

    def read(self, request: Request) -> str | None:
        text = request.query_params.get(self.name) or None
        if text is not None and text not in self.choices:
            raise InvalidRequest(f"'{self.name}' must be one of: {', '.join(self.choices)}", param=self.name)
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.choices)}


@dataclass(frozen=True)
class TimeParameter:
    """A moment with its offset from UTC, as in ISO 8601; None when not given.

    A plus sign that was sent as it is, which reads as a blank, is taken for what it was.
    """

    name: str
    about: str

    def read(self, request: Request) -> datetime | None:
        text = request.query_params.get(self.name)
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(re.sub(r" (?=\d\d:?\d\d$)", "+", text) if "T" in text else text)
            aware = moment.tzinfo is not None
            moment = moment.astimezone(UTC) if aware else moment
        except (ValueError, OverflowError):
            aware = False
        if not aware:
            raise InvalidRequest(
                f"'{self.name}' must be a time with its offset, such as 2026-03-02T12:00:00Z", param=self.name
            )
        return moment

    def schema(self) -> dict[str, object]:
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True)
class DayParameter:
    """A UTC day; None when not given."""

    name: str
    about: str

    def read(self, request: Request) -> date | None:
        text = request.query_params.get(self.name)
        if not text:
            return None
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise InvalidRequest(f"'{self.name}' must be a day, such as 2026-03-02", param=self.name) from None

    def schema(self) -> dict[str, object]:
        return {"type": "string", "format": "date"}


@dataclass(frozen=True)
class HeaderParameter:
    """A header of 1 to `longest` printable characters; None when it is not sent."""

    name: str
    longest: int
    about: str

    def read(self, request: Request) -> str | None:
        values = set(request.headers.getlist(self.name))
        if not values:
            return None
        text = values.pop()
        if values or not 0 < len(text) <= self.longest or not (text.isascii() and text.isprintable()):
            raise InvalidRequest(f"{self.name} must be 1 to {self.longest} printable ASCII characters", param=self.name)
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


@dataclass(frozen=True)
class OneOfHeader:
    """A header that is one of a few words."""

    name: str
    choices: tuple[str, ...]
    default: str
    about: str

    def read(self, request: Request) -> str:
        text = request.headers.get(self.name, self.default)
        if text not in self.choices:
            raise InvalidRequest(f"{self.name} must be one of: {', '.join(self.choices)}", param=self.name)
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.choices), "default": self.default}


@dataclass(frozen=True)
class CursorParameter(Generic[Place]):
    """The last_id of the page before, in a form of its own; None when not given. `place` finds where it points."""

    name: str
    form: str
    place: Callable[[str], Place | None]

    @property
    def about(self) -> str:
        return f"The last_id of the page before, `{self.form}`"

    def read(self, request: Request) -> Place | None:
        text = request.query_params.get(self.name)
        if not text:
            return None
        place = self.place(text)
        if place is None:
            raise InvalidRequest(f"'{self.name}' must be an id of the form {self.form}", param=self.name)
        return place

    def schema(self) -> dict[str, object]:
        return {"type": "string"}


Parameter = (
    IntegerParameter
    | ChoiceParameter
    | OneOfParameter
    | TextParameter
    | TimeParameter
    | DayParameter
    | CursorParameter[Any]
    | HeaderParameter
    | OneOfHeader
)
