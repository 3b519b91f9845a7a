"""The front door: every request gets an id, every error its shape; and the HTTP server that it stands in.

What is unexpected is logged with its traceback and answered without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence

import structlog
import uvicorn
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from ebbtide import ids, tracing
from ebbtide.api import console, oidc, ops, session
from ebbtide.api import models as model_lists
from ebbtide.api.admin import (
    accounts,
    audit,
    batch_jobs,
    batch_models,
    batch_requests,
    config,
    models,
    overview,
    provider_routes,
    purges,
    requests,
)
from ebbtide.api.answers import OutOfTime, answer_error
from ebbtide.api.anthropic import batches as message_batches
from ebbtide.api.anthropic import messages
from ebbtide.api.dialect import addressed, caller_of, speaks_messages
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini import batches as gemini_batches
from ebbtide.api.gemini import files as gemini_files
from ebbtide.api.gemini import inference as gemini_inference
from ebbtide.api.gemini import models as gemini_models
from ebbtide.api.gemini import uploads as gemini_uploads
from ebbtide.api.openai import batches, files, inference, responses, webhook
from ebbtide.api.protocol import LimitedProtocol, hang_up
from ebbtide.api.routing import Endpoint, build_router
from ebbtide.api.user import account, batch_capabilities, batch_checks, batch_submissions, usage
from ebbtide.api.user import batches as user_batches
from ebbtide.api.user import requests as user_requests
from ebbtide.api.visit import Visit
from ebbtide.errors import EbbtideError, Unavailable

log = structlog.get_logger(__name__)

ENDPOINTS: tuple[Endpoint, ...] = (
    *model_lists.ROUTES,
    *inference.ROUTES,
    *responses.ROUTES,
    *messages.ROUTES,
    *message_batches.ROUTES,
    *gemini_inference.ROUTES,
    *gemini_batches.ROUTES,
    *gemini_models.ROUTES,
    *gemini_files.ROUTES,
    *gemini_uploads.ROUTES,
    *files.ROUTES,
    *batches.ROUTES,
    *webhook.ROUTES,
    *account.ROUTES,
    *batch_capabilities.ROUTES,
    *batch_checks.ROUTES,
    *batch_submissions.ROUTES,
    *accounts.ROUTES,
    *purges.ROUTES,
    *batch_jobs.ROUTES,
    *batch_models.ROUTES,
    *batch_requests.ROUTES,
    *provider_routes.ROUTES,
    *models.ROUTES,
    *overview.ROUTES,
    *config.ROUTES,
    *audit.ROUTES,
    *session.ROUTES,
    *oidc.ROUTES,
    *requests.ROUTES,
    *user_requests.ROUTES,
    *usage.ROUTES,
    *user_batches.ROUTES,
    *ops.ROUTES,
    *console.ROUTES,
)
_LONGEST_ID = 128
_KEEP_ALIVE_SECONDS = 75  # longer than clients keep an idle connection, so that they are the ones to close it


def build_api(gateway: Gateway) -> ASGIApp:
    """The whole HTTP API as one ASGI application."""
    return FrontDoor(build_router(gateway, ENDPOINTS))


class FrontDoor:
    """Wraps the router: adopts or makes `X-Request-ID`, echoes it, and turns what is raised into an answer."""

    def __init__(self, router: ASGIApp) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = addressed(scope)
        headers = Headers(scope=scope)
        request_id = _request_id(headers)
        scope["request_id"], scope["answer_headers"] = request_id, []
        if speaks_messages(scope):
            scope["answer_headers"].append((b"request-id", request_id.encode()))
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        tracing.name_request(request_id)
        visit = Visit(scope, send, request_id)
        try:
            with tracing.span(scope["method"], "server", headers) as span:
                await self._serve(scope, receive, visit)
                visit.show(span)
        finally:
            visit.end()

    async def _serve(self, scope: Scope, receive: Receive, visit: Visit) -> None:
        error = await self._run(scope, receive, visit.send)
        if error is None:
            return
        if visit.status is not None:
            log.warning("answer_broken_off", path=scope["path"], reason=error.message)
            if isinstance(error, OutOfTime):
                hang_up(scope)
            return
        await answer_error(error, caller_of(scope), scope["request_id"])(scope, receive, visit.send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> EbbtideError | None:
        try:
            await self._router(scope, receive, send)
        except ClientDisconnect:
            return None
        except asyncio.CancelledError:  # only a server that stops at once cancels requests, and this is their last act
            return Unavailable("The gateway is stopping", retry_after=1)
        except EbbtideError as error:
            return error
        except Exception:
            log.exception("request_failed", method=scope["method"], path=scope["path"])
            return EbbtideError("Something went wrong in the gateway")
        return None


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    if 0 < len(given) <= _LONGEST_ID and given.isascii() and given.isprintable():
        return given
    return ids.request_id()


class HttpServer:
    """uvicorn on a socket that is ours, its signal handling left to whoever runs it."""

    def __init__(self, api: ASGIApp, listener: socket.socket, trusted_proxies: Sequence[str] = ()) -> None:
        self._listener = listener
        config = uvicorn.Config(
            api,
            http=LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        )
        self._server = _Server(config)

    async def start(self) -> asyncio.Task[None]:
        """Answer connections from now until `stop`; the task ends when the last request was answered or given up."""
        serving = asyncio.create_task(self._serve(), name="http")
        up = asyncio.create_task(self._server.is_up.wait())
        await asyncio.wait([serving, up], return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if serving.done():
            serving.result()
        return serving

    def stop(self, grace: int) -> None:
        """Take no more connections, and give requests in flight `grace` seconds to finish; 0 breaks them off."""
        self._server.config.timeout_graceful_shutdown = grace
        self._server.should_exit = True
        if grace == 0:
            self._server.force_exit = True
            for task in self._server.server_state.tasks:
                task.cancel()

    async def _serve(self) -> None:
        await self._server.serve([self._listener])
        await asyncio.gather(*self._server.server_state.tasks, return_exceptions=True)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
