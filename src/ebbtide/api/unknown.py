"""What is said of a path that nobody serves, or not with this method: where a client's base URL has too much or too
little, so much.

Each SDK wants its base URL otherwise: OpenAI's with /v1, Anthropic's and Google's without a version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from starlette.types import Scope

from ebbtide.api.dialect import ASKED, dialect_of
from ebbtide.errors import MethodNotAllowed, NotFound

Serves = Callable[[Scope, str], bool]
"""Whether a path in place of the request's own is served, with its method."""

_BARE: Final = re.compile(r"(/openai|/anthropic|/gemini)?(/.*)")
_TWICE: Final = re.compile(r"/v1(?:beta)?(?=/v1(?:beta)?/)")
_VERSION: Final = re.compile(r"/(?:v1|v1beta)(?=/)")


def unknown_path(scope: Scope, serves: Serves) -> NotFound:
    """The refusal of a path that is not in the table of routes."""
    method, asked = scope["method"], scope.get(ASKED, scope["path"])
    told = f"Unknown path: {method} {asked}"
    for meant, advice in _respelled(asked):
        if serves(scope, meant):
            return NotFound(f"{told}. Did you mean {meant}? {advice}")
    return NotFound(told)


def unknown_method(scope: Scope, allowed: Sequence[str]) -> NotFound | MethodNotAllowed:
    """The refusal of a method that a path does not have; a verb behind a colon is part of the path in Google's API."""
    method, asked = scope["method"], scope.get(ASKED, scope["path"])
    if method == "POST" and dialect_of(scope) == "gemini" and ":" in asked.rpartition("/")[2]:
        return NotFound(f"Unknown path: POST {asked}")
    return MethodNotAllowed(method, allowed)


def _respelled(asked: str) -> Iterator[tuple[str, str]]:
    if asked != "/" and asked.endswith("/"):
        yield asked.rstrip("/"), "Paths have no slash at their end"
    if _TWICE.search(asked):
        yield _TWICE.sub("", asked, 1), "This client adds the version itself: its base URL ends before it"
        return
    found = _BARE.fullmatch(asked)
    if found is not None and not _VERSION.match(found[2]):
        prefix = found[1] or ""
        yield f"{prefix}/v1{found[2]}", "This client does not add the version: its base URL ends in /v1"
