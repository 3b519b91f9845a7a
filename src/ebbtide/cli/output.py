"""How commands print: a table for people, JSON for programs, times in UTC."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

AsJson: TypeAlias = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON, one object a line.")]


def print_rows(rows: Iterable[dict[str, object]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """Print each row's `columns` as a table, or whole rows as JSON lines; `empty` says that there are none."""
    rows = list(rows)
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        print(empty, file=sys.stderr)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(_heading(column), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[column]) for column in columns))
    wide = None if sys.stdout.isatty() else 10_000  # a pipe has no width to fit into
    Console(width=wide, highlight=False, markup=False).print(table)


def print_json(value: object) -> None:
    print(msgspec.json.encode(value).decode())


def _heading(column: str) -> str:
    """`created_at` is `created at (UTC)`: every time in a table is."""
    return column.replace("_", " ") + (" (UTC)" if column.endswith("_at") else "")


def cell(value: object) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    return str(value)


def tell(message: str) -> None:
    """Say something to the person at the terminal that is not the command's output."""
    print(message, file=sys.stderr)
