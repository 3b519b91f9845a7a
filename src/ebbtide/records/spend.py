"""What accounts were charged, by UTC day, key and source. Written in the transaction that records the outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from ebbtide.dialects.values import Usage
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.records", "spend.sql")


@dataclass(frozen=True, slots=True)
class Charge:
    """One attempt whose bill is known, in USD."""

    account_id: str
    key_id: str
    source: str
    usage: Usage
    cost: Decimal


async def add_charges(conn: Connection, charges: Sequence[Charge], day: date) -> None:
    """Add up the charges of `day`; the rows are touched in order, so that two writers cannot lock each other out."""
    if not charges:
        return
    by_row: dict[tuple[str, str, str], list[Charge]] = defaultdict(list)
    for charge in charges:
        by_row[charge.account_id, charge.key_id, charge.source].append(charge)
    rows = [
        (
            *row,
            len(of_row),
            sum(c.usage.input_tokens for c in of_row),
            sum(c.usage.output_tokens for c in of_row),
            sum((c.cost for c in of_row), start=Decimal(0)),
        )
        for row, of_row in sorted(by_row.items())
    ]
    await conn.execute(_Q["add_charges"], day, *(list(column) for column in zip(*rows, strict=True)))
