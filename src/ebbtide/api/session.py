"""/session: the console's sign-in; and the password of whoever is signed in."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts import setup
from ebbtide.accounts.accounts import find_account
from ebbtide.accounts.sessions import SignIn, csrf_token
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.auth import COOKIE, refuse_cross_site, session_secret
from ebbtide.api.bodies import read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Closed, Described, Endpoint, Open
from ebbtide.errors import Conflict, InvalidRequest

_BODY_LIMIT = 16 * 1024
Body = TypeVar("Body")


class Credentials(msgspec.Struct, forbid_unknown_fields=True):
    """What one signs in with."""

    name: str
    password: str


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """A change of one's own password."""

    current: str
    new: str


class SetupClaim(msgspec.Struct, forbid_unknown_fields=True):
    """The code that was printed where the gateway was started, and whom to make its administrator."""

    code: str
    name: str
    password: str


class SetupObject(msgspec.Struct):
    """Whether the gateway waits for its first sign-in, and whether people sign in by OpenID Connect."""

    open: bool
    oidc: bool = False


class SessionObject(msgspec.Struct):
    """Who is signed in; `csrf_token` is what changes by session carry, null where a key was sent instead."""

    account_id: str
    name: str
    role: str
    csrf_token: str | None


class SignedOut(msgspec.Struct):
    """How many sessions were ended."""

    ended: int


async def sign_in(gateway: Gateway, request: Request) -> Response:
    given = await _read(request, Credentials)
    secret = await gateway.sessions.sign_in(SignIn(given.name.strip(), given.password, client_address(request)))
    return await _signed_in(gateway, request, secret)


async def get_setup(gateway: Gateway, request: Request) -> Response:
    oidc = gateway.oidc is not None
    return answer_json(SetupObject(not oidc and await setup.is_open(gateway.database), oidc))


async def claim_setup(gateway: Gateway, request: Request) -> Response:
    given = await _read(request, SetupClaim)
    if gateway.oidc is not None:
        raise Conflict("People sign in by OpenID Connect here: `ebbtide accounts` makes administrators")
    claim = setup.Claim(given.code, given.name, given.password, client_address(request))
    secret = await setup.claim(gateway.database, gateway.sessions, claim, gateway.clock.now())
    return await _signed_in(gateway, request, secret)


async def get_session(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await _shown(gateway, principal, session_secret(request))


async def sign_out(gateway: Gateway, request: Request, principal: Principal) -> Response:
    secret = session_secret(request)
    if secret is None:
        raise InvalidRequest("The request was made with an API key: there is no session to end")
    await gateway.sessions.sign_out(principal, secret)
    return _forgetting(SignedOut(1))


async def sign_out_everywhere(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return _forgetting(SignedOut(await gateway.sessions.sign_out_everywhere(principal.account_id, principal.actor)))


async def change_password(gateway: Gateway, request: Request, principal: Principal) -> Response:
    given = await _read(request, NewPassword)
    secret = session_secret(request)
    await gateway.sessions.change_password(principal, given.current, given.new, secret)
    return await _shown(gateway, principal, secret)


async def _shown(gateway: Gateway, principal: Principal, secret: str | None) -> Response:
    account = await find_account(gateway.database, principal.account_id)
    token = None if secret is None else csrf_token(secret)
    answer = answer_json(SessionObject(account.id, account.name, account.role.value, token))
    answer.headers["cache-control"] = "no-store"
    return answer


def _forgetting(value: SignedOut) -> Response:
    answer = answer_json(value)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
    return answer


def put_session_cookie(gateway: Gateway, request: Request, answer: Response, secret: str) -> None:
    """Let the browser keep the session."""
    lifetime = int(gateway.sessions.lifetime.total_seconds())
    secure = is_secure(gateway, request)
    answer.set_cookie(COOKIE, secret, lifetime, path="/", secure=secure, httponly=True, samesite="lax")


def is_secure(gateway: Gateway, request: Request) -> bool:
    """Whether cookies go by https only."""
    return gateway.secure_cookies or request.url.scheme == "https"


def client_address(request: Request) -> str:
    """Where the request comes from, as far as a trusted proxy tells."""
    return "unknown" if request.client is None else request.client.host


async def _signed_in(gateway: Gateway, request: Request, secret: str) -> Response:
    answer = await _shown(gateway, await gateway.sessions.principal(secret), secret)
    put_session_cookie(gateway, request, answer, secret)
    return answer


async def _read(request: Request, kind: type[Body]) -> Body:
    """The body of a request that may come without a session. A form of another site can send no JSON as JSON."""
    refuse_cross_site(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("Send a JSON body (Content-Type: application/json)")
    body = await read_body(request, _BODY_LIMIT)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InvalidRequest("The body is not the JSON object that is expected here") from problem


ROUTES: tuple[Endpoint, ...] = (
    Open(
        "POST",
        "/session",
        sign_in,
        "Sign in with a name and a password",
        Described(request=Credentials, answer=SessionObject, errors=(400, 401, 403, 413, 429)),
    ),
    Open("GET", "/setup", get_setup, "Whether first-run set-up is open", Described(answer=SetupObject, errors=(503,))),
    Open(
        "POST",
        "/setup",
        claim_setup,
        "Make the first administrator, with the set-up code, and sign in",
        Described(request=SetupClaim, answer=SessionObject, errors=(400, 403, 409, 413, 429)),
    ),
    Closed("GET", "/session", get_session, "Who is signed in", Described(answer=SessionObject)),
    Closed("DELETE", "/session", sign_out, "Sign out", Described(answer=SignedOut, errors=(400, 403))),
    Closed(
        "DELETE",
        "/sessions",
        sign_out_everywhere,
        "Sign out everywhere",
        Described(answer=SignedOut, errors=(403,)),
    ),
    Closed(
        "PUT",
        "/user/password",
        change_password,
        "Change your password; your other sessions end",
        Described(request=NewPassword, answer=SessionObject, errors=(400, 403, 413, 429)),
    ),
)
