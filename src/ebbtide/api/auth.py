"""Who asks: by API key (`Authorization: Bearer`, `X-API-Key`, `x-goog-api-key` or Gemini's `?key=`), else by the
session in the console's cookie.

Two keys that differ are refused rather than one of them picked: the caller cannot know which would pay.
A browser sends a cookie for any site that asks it to. What changes something by cookie must therefore come from a page
of ours: it carries the session's CSRF token, and what the browser says of its origin does not speak against it.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.sessions import Sessions, is_csrf_token
from ebbtide.accounts.store import Principal
from ebbtide.api.dialect import GOOGLE_KEY, query_key
from ebbtide.errors import Forbidden, Unauthenticated

COOKIE = "ebbtide_session"
_KEY_HEADERS = frozenset({b"x-api-key", GOOGLE_KEY.encode()})
_SAFE = frozenset({"GET", "HEAD"})


async def authenticate(authenticator: Authenticator, sessions: Sessions, request: Request) -> Principal:
    """The principal behind the request's API key or session. Raises Unauthenticated, Forbidden."""
    keys = _keys(request)
    secret = request.cookies.get(COOKIE) if not keys else None
    if not secret:
        return await authenticator.principal(_one(keys))
    principal = await sessions.principal(secret)
    if request.method not in _SAFE:
        refuse_cross_site(request)
        if not is_csrf_token(secret, request.headers.get("x-csrf-token", "")):
            raise Forbidden("A change by session needs the header X-CSRF-Token, as GET /session tells it")
    return principal


def session_secret(request: Request) -> str | None:
    """The secret of the session that the request acts in; None for one with a key, or without either."""
    return None if _keys(request) else request.cookies.get(COOKIE) or None


def refuse_cross_site(request: Request) -> None:
    """Raises Forbidden for what another site made a browser send."""
    origin = request.headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower()
    if foreign or request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise Forbidden("This request was sent by a page of another site")


def _one(keys: set[str]) -> str:
    if not keys:
        raise Unauthenticated(
            "No API key: send it as 'Authorization: Bearer <key>', 'X-API-Key: <key>' or 'x-goog-api-key: <key>'"
        )
    if len(keys) > 1:
        raise Unauthenticated("The request carries two different API keys: send one")
    return keys.pop()


def _keys(request: Request) -> set[str]:
    keys: set[str | None] = set()
    for name, value in request.scope["headers"]:  # one look at each: every request comes by here
        if name == b"authorization":
            keys.add(_bearer(value.decode("latin-1")))
        elif name in _KEY_HEADERS:
            keys.add(value.decode("latin-1").strip())
    if asked := query_key(request.scope):
        keys.add(asked)
    return {key for key in keys if key}


def _bearer(value: str) -> str | None:
    scheme, _, key = value.strip().partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
