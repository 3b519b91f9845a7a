"""Which key a request presents."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.accounts.store import Principal
from ebbtide.api.auth import authenticate
from ebbtide.errors import Unauthenticated


class _Known(Authenticator):
    """Takes every key for one that it knows, by its own name."""

    def __init__(self) -> None:
        return

    async def principal(self, secret: str) -> Principal:
        return Principal("acct_1", secret, Role.FREE)


class _NoSessions(Sessions):
    def __init__(self) -> None:
        return


async def key_of(request: Request) -> str:
    return (await authenticate(_Known(), _NoSessions(), request)).key_id


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
async def test_a_key_is_read_from_either_header(headers: list[tuple[str, str]]) -> None:
    assert await key_of(request(*headers)) == "k"


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
async def test_no_key_or_two_that_differ_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(Unauthenticated):
        await key_of(request(*headers))
