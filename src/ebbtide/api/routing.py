"""Routes are a table: each handlers file ends in one, and nothing else registers a path.

An endpoint is closed (needs an API key or a session) unless it is written as `Open`; `Admin` ones need an
administrator's. GET answers HEAD too.
REQUEST_TIMEOUT_SECONDS bounds a request from its first byte to the last of its answer, a body that drips in included;
an answer that is Streamed may take STREAM_REQUEST_TIMEOUT_SECONDS instead, its reader's pauses included.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import OutOfTime, Streamed, in_pieces
from ebbtide.api.auth import authenticate
from ebbtide.api.dialect import addressed
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import Parameter
from ebbtide.api.unknown import unknown_method, unknown_path
from ebbtide.errors import Forbidden, NotFound

KeyHandler = Callable[[Gateway, Request, Principal], Awaitable[Response]]
OpenHandler = Callable[[Gateway, Request], Awaitable[Response]]
ROUTE: Final = "ebbtide.route"
"""Where a request's scope holds the template of its path."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """What OpenAPI tells of an endpoint.

    A wire type is a msgspec type (JSON), a media type (bytes) or None (no body); a request may also be the JSON Schema
    of a multipart form. `more` are further answers by status, `errors` the statuses answered in the error shape.
    """

    request: object = None
    answer: object = None
    streams: bool = False
    more: tuple[tuple[int, object], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Closed:
    """An endpoint that needs an API key; `batch` ones are not there while BATCH_ENABLED is off."""

    method: str
    path: str
    handler: KeyHandler
    summary: str
    described: Described
    batch: bool = False


@dataclass(frozen=True)
class Admin(Closed):
    """An endpoint that needs the API key of an administrator; any other role gets 403."""


@dataclass(frozen=True, kw_only=True)
class Scraped(Admin):
    """One that the metrics token opens too, for `scrape`."""

    scrape: OpenHandler


@dataclass(frozen=True, kw_only=True)
class Switched(Closed):
    """One that `gate` may refuse, by raising, before the key is asked for: whoever calls learns it."""

    gate: Callable[[Gateway], None]


@dataclass(frozen=True)
class Open:
    """An endpoint that anyone may call."""

    method: str
    path: str
    handler: OpenHandler
    summary: str
    described: Described


Endpoint = Closed | Open


def build_router(gateway: Gateway, endpoints: Sequence[Endpoint]) -> ASGIApp:
    """The ASGI application of a table. Raises what its handlers raise, NotFound and MethodNotAllowed."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [Route(path, _Path(gateway, path, methods)) for path, methods in paths.items()]
    table = [(route, frozenset(methods)) for route, methods in zip(routes, paths.values(), strict=True)]

    def serves(scope: Scope, path: str) -> bool:
        meant = addressed({**scope, "path": path})
        return any(scope["method"] in methods and route.matches(meant)[0] is Match.FULL for route, methods in table)

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        raise unknown_path(scope, serves)

    return Router(routes, redirect_slashes=False, default=refuse)


class _Path:
    """One path with its methods."""

    def __init__(self, gateway: Gateway, path: str, methods: dict[str, Endpoint]) -> None:
        self._route = path.replace(":path", "")
        self._gateway = gateway
        self._methods = methods | ({"HEAD": methods["GET"]} if "GET" in methods else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "\0" in scope["path"]:  # no id holds one, and the database takes none
            raise NotFound("Unknown path: it holds a NUL character")
        endpoint = self._methods.get(scope["method"])
        if endpoint is None:
            raise unknown_method(scope, sorted(self._methods))
        scope[ROUTE] = self._route
        settings = self._gateway.settings.current
        if isinstance(endpoint, Closed) and endpoint.batch and not settings.batch_enabled:
            raise NotFound("Batch inference is not available on this gateway")
        began, seconds = asyncio.get_running_loop().time(), settings.request_timeout_seconds
        try:
            async with asyncio.timeout_at(began + seconds) as deadline:
                response = await self._answer(endpoint, Request(scope, receive, send))
                if isinstance(response, Streamed):
                    seconds = settings.stream_request_timeout_seconds
                    deadline.reschedule(began + seconds)
                await response(scope, receive, in_pieces(send))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise OutOfTime(seconds) from None

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        if isinstance(endpoint, Open):
            return await endpoint.handler(self._gateway, request)
        if isinstance(endpoint, Scraped) and _is_scraper(self._gateway.metrics_token, request):
            return await endpoint.scrape(self._gateway, request)
        if isinstance(endpoint, Switched):
            endpoint.gate(self._gateway)
        principal = await authenticate(self._gateway.authenticator, self._gateway.sessions, request)
        if isinstance(endpoint, Admin) and principal.role < Role.ADMIN:
            raise Forbidden("Only administrators may do this: it takes the role admin")
        structlog.contextvars.bind_contextvars(account=principal.account_id)
        return await endpoint.handler(self._gateway, request, principal)


def _is_scraper(token: str | None, request: Request) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if token is None or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())
