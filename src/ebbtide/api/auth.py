"""Who asks: the API key of a request, from `Authorization: Bearer` or `X-API-Key`.

Two keys that differ are refused rather than one of them picked: the caller cannot know which would pay.
"""

from __future__ import annotations

from starlette.requests import Request

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.store import Principal
from ebbtide.errors import Unauthenticated


async def authenticate(authenticator: Authenticator, request: Request) -> Principal:
    """The principal behind the request's API key. Raises Unauthenticated."""
    return await authenticator.principal(read_key(request))


def read_key(request: Request) -> str:
    """The one key that the request presents. Raises Unauthenticated when there is none, or when two differ."""
    bearer = (_bearer(value) for value in request.headers.getlist("authorization"))
    plain = (value.strip() for value in request.headers.getlist("x-api-key"))
    keys = {key for key in (*bearer, *plain) if key}
    if not keys:
        raise Unauthenticated("No API key: send it as 'Authorization: Bearer <key>' or as 'X-API-Key: <key>'")
    if len(keys) > 1:
        raise Unauthenticated("The request carries two different API keys: send one")
    return keys.pop()


def _bearer(value: str) -> str | None:
    scheme, _, key = value.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
