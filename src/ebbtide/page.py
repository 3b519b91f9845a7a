"""A page of a list, whatever it lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A slice of a list, and whether more follows."""

    items: list[T]
    has_more: bool
