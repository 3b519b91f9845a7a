"""Naming the field at fault: msgspec's complaints, and our own, as InvalidRequest with the field's path."""

from __future__ import annotations

import re
from typing import Final, TypeGuard, TypeVar

import msgspec

from ebbtide.errors import InvalidRequest

T = TypeVar("T")

MAX_CUSTOM_ID: Final = 512
SHORTEST_LIFE: Final = 3_600
LONGEST_LIFE: Final = 2_592_000

_AT = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<path>.*?)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>\w+)`")
_TYPE = re.compile(r"\b(?:str|int|float|bool)\b")
_TYPE_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class JsonObject(msgspec.Struct, gc=False):
    """Any JSON object."""


def convert(body: dict[str, object], kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise field_error(error) from None


def field_error(error: msgspec.ValidationError) -> InvalidRequest:
    """msgspec's complaint about a field, which tells types and never values, in our words and with our paths."""
    match = _AT.fullmatch(str(error))
    what, path = (match["what"], match["path"] or "") if match else (str(error), "")
    if missing := _MISSING.fullmatch(what):
        return invalid(f"{path}.{missing['field']}".removeprefix("."), "required")
    text = _TYPE.sub(lambda name: _TYPE_NAMES[name[0]], what.replace("`", ""))
    text = text[:1].lower() + text[1:]
    return invalid(path, text) if path else InvalidRequest(f"The body: {text}")


def invalid(field: str, problem: str, code: str | None = None) -> InvalidRequest:
    return InvalidRequest(f"{field}: {problem}", param=field, code=code)


def expiry_seconds(field: str, value: object) -> int | None:
    """How long a file is wanted, from its creation on: of `{"anchor": "created_at", "seconds": …}`, or null."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise invalid(field, "expected object")
    if value.get("anchor") != "created_at":
        raise invalid(f"{field}.anchor", "must be created_at")
    seconds = value.get("seconds")
    if type(seconds) is not int or not SHORTEST_LIFE <= seconds <= LONGEST_LIFE:
        raise invalid(f"{field}.seconds", f"must be a whole number between {SHORTEST_LIFE} and {LONGEST_LIFE}")
    return seconds


def is_custom_id(value: object) -> TypeGuard[str]:
    """Whether `value` may name a request: 1 to 512 characters without a NUL."""
    return isinstance(value, str) and 0 < len(value) <= MAX_CUSTOM_ID and "\0" not in value


def word_of(value: object) -> str:
    """A value that should be one of a few words; the empty one for what is no text."""
    return value if isinstance(value, str) else ""


def check_name(model: str) -> None:
    """Raises InvalidRequest for a model's name that cannot be one."""
    if "\0" in model:
        raise invalid("model", "must not contain NUL")


def check_size(field: str, size: int, limit: int) -> None:
    """Raises InvalidRequest when a field holds more than it may."""
    if size > limit:
        raise invalid(field, f"{size} given, at most {limit} allowed")
