"""Named SQL: every statement lives in a `.sql` file beside its only caller, with a name and a description.

A file is a run of `-- name: verb`, one or more `-- description` lines, then the statement up to the next name.
Anything else is an error when the file is loaded, so that it is an error at import, never in the middle of a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files

_NAME = re.compile(r"-- name: *(\S.*?) *")
_VERB = re.compile(r"[a-z][a-z0-9_]*")


class QueryFileError(Exception):
    """A `.sql` file that does not follow the rules, or a name that it does not have. A mistake in this program."""


class Queries(Mapping[str, str]):
    """The statements of one file by name; an unknown name raises QueryFileError and tells the known ones."""

    def __init__(self, source: str, statements: dict[str, str], descriptions: dict[str, str]) -> None:
        self.source = source
        self.descriptions = descriptions
        self._statements = statements

    def __getitem__(self, name: str) -> str:
        if name not in self._statements:
            known = ", ".join(self._statements) or "none"
            raise QueryFileError(f"{self.source} has no query {name!r}, only: {known}")
        return self._statements[name]

    def __contains__(self, name: object) -> bool:
        return name in self._statements

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


def load_queries(package: str, filename: str) -> Queries:
    """Read and check `filename` of `package`: `load_queries("ebbtide.batches", "store.sql")`."""
    return parse_queries((files(package) / filename).read_text(encoding="utf-8"), f"{package}/{filename}")


def parse_queries(text: str, source: str) -> Queries:
    """The statements in `text`; raises QueryFileError naming `source`."""
    statements: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    for name, lines in _sections(text, source):
        if name in statements:
            raise QueryFileError(f"{source} has two queries named {name!r}")
        descriptions[name], statements[name] = _split(name, lines, source)
    return Queries(source, statements, descriptions)


def _sections(text: str, source: str) -> Iterator[tuple[str, list[str]]]:
    name: str | None = None
    lines: list[str] = []
    for line in text.splitlines():
        match = _NAME.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        yield from _section(name, lines, source)
        name, lines = match[1], []
        if _VERB.fullmatch(name) is None:
            raise QueryFileError(f"{source}: {name!r} is not a name (lower-case letters, digits and _)")
    yield from _section(name, lines, source)


def _section(name: str | None, lines: list[str], source: str) -> Iterator[tuple[str, list[str]]]:
    """What was collected before the next name; ahead of the first name only comments may stand."""
    if name is not None:
        yield name, lines
    elif any(line.strip() and not line.startswith("--") for line in lines):
        raise QueryFileError(f"{source} has SQL before its first '-- name:' line")


def _split(name: str, lines: list[str], source: str) -> tuple[str, str]:
    """The description (leading comment lines) and the statement after it."""
    count = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    description = " ".join(line.lstrip("-").strip() for line in lines[:count]).strip()
    statement = "\n".join(lines[count:]).strip().removesuffix(";").rstrip()
    if not description:
        raise QueryFileError(f"{source}: query {name!r} has no '-- description' line under its name")
    if not any(line.strip() and not line.strip().startswith("--") for line in statement.splitlines()):
        raise QueryFileError(f"{source}: query {name!r} has no statement")
    return description, statement
