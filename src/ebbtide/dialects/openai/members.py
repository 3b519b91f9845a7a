"""Members of OpenAI's bodies read strictly: what has no place in the neutral form is refused by its path, and null
counts as left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ebbtide.dialects.conversation import ToolChoice, cannot
from ebbtide.dialects.fields import convert, invalid
from ebbtide.errors import InvalidRequest

T = TypeVar("T")

_NO_PARAMETER: Final = "the model's server has no such parameter"
_CHOICES: Final = {
    "auto": ToolChoice("auto"),
    "none": ToolChoice("none"),
    "required": ToolChoice("required"),
}


def refuse_others(given: Mapping[str, object], known: frozenset[str], path: str = "") -> None:
    """Raises InvalidRequest for a member of `path` that is none of these."""
    for name, value in given.items():
        if value is not None and name not in known:
            raise cannot(f"{path}.{name[:100]}".removeprefix("."), _NO_PARAMETER)


def read(given: Mapping[str, object], kind: type[T]) -> T:
    """Members that are null are left out: a Literal without None would refuse them."""
    return convert({name: value for name, value in given.items() if value is not None}, kind)


def within(
    path: str,
    given: Mapping[str, object],
    kind: type[T],
    complaint: Callable[[str, str], InvalidRequest] = invalid,
) -> T:
    """A member's object as `kind`, a struct; complaints name the path from the body's top.

    `complaint` makes the refusal of a value, of a path and a problem.
    """
    refuse_others(given, frozenset(kind.__struct_fields__), path)  # type: ignore[attr-defined]
    try:
        return read(given, kind)
    except InvalidRequest as error:
        place = f"{path}.{error.param}" if error.param else path
        raise complaint(place, error.message.rpartition(": ")[2]) from None


def choice_of(given: str | dict[str, object] | None, named: Callable[[dict[str, object]], str]) -> ToolChoice | None:
    """What `tool_choice` says; `named` finds the function's name in its object. Raises InvalidRequest."""
    if given is None:
        return None
    if isinstance(given, str):
        if given not in _CHOICES:
            raise invalid("tool_choice", "must be none, auto, required or a function")
        return _CHOICES[given]
    if given.get("type") != "function":
        raise cannot("tool_choice.type", "the model's server takes a choice of type function")
    return ToolChoice("tool", named(given))


def user_of(user: str | None, safety_identifier: str | None) -> tuple[str, str] | None:
    """Which of the two names the end user, and how. Raises InvalidRequest for both."""
    if safety_identifier is None:
        return None if user is None else ("user", user)
    if user is not None:
        raise cannot("user", "cannot be told beside safety_identifier")
    return "safety_identifier", safety_identifier
