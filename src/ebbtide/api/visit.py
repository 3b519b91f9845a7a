"""One request as operators see it: the line of the access log, what is counted, and what its trace tells.

The route's template stands for the path, and nothing of a body or of a header is told but the request's id.
"""

from __future__ import annotations

import time
from typing import Final

import structlog
from starlette.types import Message, Scope, Send

from ebbtide.api.routing import ROUTE
from ebbtide.logs import Access, log_access
from ebbtide.records.metrics import HTTP_REQUESTS
from ebbtide.tracing import Span

_UNKNOWN: Final = "unknown"
_QUIET: Final = frozenset({"/health", "/health/ready", "/metrics"})  # asked for all day long
_LEFT: Final = 499  # the client went before it was answered
_NO_GUESSING: Final = (b"x-content-type-options", b"nosniff")  # what users upload is never a page to a browser


class Visit:
    """Stands between the application and the server's `send`. `status` is None until the answer has begun."""

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self.status: int | None = None
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self._began = time.perf_counter()
        self._bytes = 0
        self._whole = False

    async def send(self, message: Message) -> None:
        """Send a part of the answer, its head with the request's id and what a handler left in `answer_headers`."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message["headers"],
                *self._scope["answer_headers"],
                (b"x-request-id", self._request_id.encode()),
                _NO_GUESSING,
            ]
        else:
            self._bytes += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        await self._send(message)

    @property
    def route(self) -> str:
        return str(self._scope.get(ROUTE, _UNKNOWN))

    def show(self, span: Span) -> None:
        """Tell the request's trace what it was."""
        status = self.status or _LEFT
        span.name(f"{self._scope['method']} {self.route}")
        span.set("http.request.method", self._scope["method"])
        span.set("http.route", self.route)
        span.set("http.response.status_code", status)
        span.set("ebbtide.request_id", self._request_id)
        if status >= 500:
            span.fail(str(status))

    def end(self) -> None:
        """Count and log it."""
        status, route = self.status or _LEFT, self.route
        method = "other" if route == _UNKNOWN else self._scope["method"]
        HTTP_REQUESTS.labels(method, route, str(status)).inc()
        if route not in _QUIET:
            bound = structlog.contextvars.get_contextvars()
            log_access(
                Access(
                    request_id=self._request_id,
                    method=self._scope["method"],
                    route=route,
                    status=status,
                    ms=round((time.perf_counter() - self._began) * 1000, 1),
                    bytes=self._bytes,
                    whole=self._whole,
                    account=bound.get("account"),
                    model=bound.get("model"),
                )
            )
