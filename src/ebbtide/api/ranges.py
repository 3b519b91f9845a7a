"""Conditional and partial downloads (RFC 9110, sections 13 and 14): pure answers about header values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers

_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"[^A-Za-z0-9 ._()+-]")


class Unsatisfiable(Exception):
    """The range asked for holds no byte of the content."""


@dataclass(frozen=True)
class Slice:
    """Bytes `start` up to, not including, `stop`."""

    start: int
    stop: int


def is_unchanged(headers: Headers, etag: str) -> bool:
    """Whether If-None-Match already names this content, so that 304 answers."""
    asked = headers.get("if-none-match")
    return asked is not None and (asked.strip() == "*" or etag in _tags(asked))


def read_range(headers: Headers, etag: str, size: int) -> Slice | None:
    """The one range to send, or None for the whole: no Range, an If-Range for other content, several or odd ranges.

    Raises Unsatisfiable when a well-formed range lies outside of the content.
    """
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    if found is None or not _if_range_holds(headers.get("if-range"), etag):
        return None
    first, last = found.groups()
    if not first:
        return _suffix(last, size)
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Slice(start, min(int(last) + 1, size) if last else size)


def content_disposition(filename: str) -> str:
    """An attachment of this name, whatever is in it: an ASCII stand-in, and the name percent-encoded (RFC 6266)."""
    plain = _PLAIN.sub("_", filename)
    if plain == filename:
        return f'attachment; filename="{plain}"'
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _suffix(length: str, size: int) -> Slice | None:
    if not length:
        return None
    if int(length) == 0 or size == 0:
        raise Unsatisfiable
    return Slice(max(size - int(length), 0), size)


def _if_range_holds(condition: str | None, etag: str) -> bool:
    """If-Range needs the strong tag itself; a date never matches, for we tell none."""
    return condition is None or condition.strip() == etag


def _tags(value: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in value.split(",")}
