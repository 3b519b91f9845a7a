"""Which key a request presents."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from ebbtide.api.auth import read_key
from ebbtide.errors import Unauthenticated


def request(*headers: tuple[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    return Request({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer k")],
        [("authorization", "bearer k")],
        [("Authorization", "BEARER   k ")],
        [("X-API-Key", "k")],
        [("x-api-key", " k ")],
        [("Authorization", "Bearer k"), ("X-API-Key", "k")],
        [("Authorization", "Basic dXNlcjpwYXNz"), ("X-API-Key", "k")],
    ],
)
def test_a_key_is_read_from_either_header(headers: list[tuple[str, str]]) -> None:
    assert read_key(request(*headers)) == "k"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer ")],
        [("Authorization", "k")],
        [("Authorization", "Basic dXNlcjpwYXNz")],
        [("X-API-Key", "")],
        [("Authorization", "Bearer k"), ("X-API-Key", "other")],
        [("Authorization", "Bearer k"), ("Authorization", "Bearer other")],
    ],
)
def test_no_key_or_two_that_differ_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(Unauthenticated):
        read_key(request(*headers))
