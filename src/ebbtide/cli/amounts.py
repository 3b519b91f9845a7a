"""Amounts of USD on the command line: plain digits, or `none` for no limit."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from ebbtide.errors import SetupError

_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?")

Limit: TypeAlias = Annotated[str | None, Parameter(help="USD, or none for no limit. Without it: as it is.")]


def read_amount(option: str, text: str | None, before: Decimal | None) -> Decimal | None:
    """What an option says: an amount, None for `none`, `before` where it is not given. Raises SetupError."""
    if text is None:
        return before
    word = text.strip().lower()
    if word == "none":
        return None
    if _AMOUNT.fullmatch(word) is None:
        raise SetupError(f"{option} takes an amount of USD such as 25 or 0.50, or none; {text!r} is not that")
    return Decimal(word)
