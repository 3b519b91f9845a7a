"""/session/oidc: signing in by OpenID Connect, for browsers: both answers are redirects."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ebbtide.accounts.oidc.flow import Callback, Oidc
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import TextParameter
from ebbtide.api.routing import Described, Endpoint, Open
from ebbtide.api.session import client_address, is_secure, put_session_cookie
from ebbtide.errors import InvalidRequest, NotFound

NEXT = TextParameter("next", "The path to go to once signed in; / without it")
_COOKIE = "ebbtide_oidc"
_PATH = "/session/oidc"
_SECONDS = 600
# Of this site, and nothing that a browser might read as another: no second slash, no backslash, no control character.
_LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]{0,1000}")


async def start_oidc(gateway: Gateway, request: Request) -> Response:
    oidc = _oidc(gateway)
    after = NEXT.read(request) or "/"
    if not _LOCAL.fullmatch(after):
        raise InvalidRequest("next is a path of this gateway, such as /batches", param="next")
    url, flow = await oidc.start(_redirect_uri(oidc, request), gateway.clock.now())
    value = f"{flow}.{urlsafe_b64encode(after.encode()).decode().rstrip('=')}"
    answer = _redirect(url)
    secure = is_secure(gateway, request)
    answer.set_cookie(_COOKIE, value, _SECONDS, path=_PATH, secure=secure, httponly=True, samesite="lax")
    return answer


async def finish_oidc(gateway: Gateway, request: Request) -> Response:
    oidc = _oidc(gateway)
    flow, _, after = request.cookies.get(_COOKIE, "").partition(".")
    callback = Callback(flow, request.query_params, _redirect_uri(oidc, request), client_address(request))
    secret = await oidc.finish(callback, gateway.clock.now())
    answer = _redirect(_decoded(after))
    put_session_cookie(gateway, request, answer, secret)
    answer.delete_cookie(_COOKIE, path=_PATH, httponly=True, samesite="lax")
    return answer


def _oidc(gateway: Gateway) -> Oidc:
    if gateway.oidc is None:
        raise NotFound("Signing in by OpenID Connect is not set up on this gateway")
    return gateway.oidc


def _redirect_uri(oidc: Oidc, request: Request) -> str:
    return (oidc.config.public_url or str(request.base_url).rstrip("/")) + f"{_PATH}/callback"


def _redirect(url: str) -> Response:
    return RedirectResponse(url, 302, {"cache-control": "no-store"})


def _decoded(after: str) -> str:
    try:
        path = urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()
    except (Error, ValueError):
        return "/"
    return path if _LOCAL.fullmatch(path) else "/"


ROUTES: tuple[Endpoint, ...] = (
    Open(
        "GET",
        f"{_PATH}/start",
        start_oidc,
        "Sign in by OpenID Connect: sends the browser to the identity provider",
        Described(more=((302, None),), parameters=(NEXT,), errors=(400, 404, 503)),
    ),
    Open(
        "GET",
        f"{_PATH}/callback",
        finish_oidc,
        "Where the identity provider sends the browser back",
        Described(more=((302, None),), errors=(400, 403, 404, 409, 429, 503)),
    ),
)
