"""What a run-time setting is: its name, type, bounds and sentence. The table of them is registry.py."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

Value: TypeAlias = bool | int | str | Decimal | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One run-time setting: its default decides its type (bool, int or str; None: an amount of USD, or none).

    A str without `choices` is a URL, or nothing; one with `several` names some of its choices, comma-separated. What a
    `secret` one holds is never shown, only whether it is set.
    """

    name: str
    default: Value
    sentence: str
    unit: str = ""
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    several: bool = False
    secret: bool = False

    @property
    def attribute(self) -> str:
        """The name of its attribute of `Settings`."""
        return self.name.lower()

    @property
    def kind(self) -> type[bool | int | str | Decimal]:
        return Decimal if self.default is None else type(self.default)

    @property
    def wire_type(self) -> Literal["boolean", "integer", "string"]:
        """Its type in JSON's words."""
        if self.kind is bool:
            return "boolean"
        return "integer" if self.kind is int else "string"

    @property
    def bounds(self) -> str:
        """What it accepts, in words."""
        if self.kind is bool:
            return "on or off"
        if self.choices:
            some = "one or more, comma-separated, of " if self.several else "one of "
            return some + ", ".join(self.choices)
        if self.kind is str:
            return "a URL that begins with https:// or http://, or nothing"
        if self.kind is Decimal:
            return "an amount of 0 or more, such as 12.5, or nothing"
        return f"a whole number from {self.minimum:,} to {self.maximum:,}"
