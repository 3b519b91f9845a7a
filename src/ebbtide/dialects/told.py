"""What upstreams tell of tokens and errors, whatever their form: what makes no sense counts as nothing, and none of it
can raise.
"""

from __future__ import annotations

from typing import Final

from ebbtide.dialects.values import MAX_TOKENS

_MAX_MESSAGE: Final = 2000


def count_of(value: object) -> int | None:
    """A count of tokens; None for what cannot be one."""
    # type(), as True is an int and a count of tokens is not.
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def detail_of(details: object, name: str) -> int:
    """One count of an object of them, 0 where it is not told."""
    return (count_of(details.get(name)) or 0) if isinstance(details, dict) else 0


def clean(message: str) -> str:
    """An error's words as they are kept, at most 2,000 characters: PostgreSQL's text holds no NUL."""
    return message.strip().replace("\0", "\ufffd")[:_MAX_MESSAGE]
