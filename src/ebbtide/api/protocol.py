"""uvicorn's HTTP protocol with what it lacks: a limit to a request's head, in bytes and in time, and hanging up.

Bodies are limited by whoever reads them (ebbtide.api.bodies); before the head is whole, nobody does.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 64 * 1024
HEAD_SECONDS: Final = 30.0
_HANG_UP: Final = "ebbtide.hang_up"
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
)
_WORDS: Final = (
    b'{"error":{"message":"The request\'s headers are larger than 64 KiB","type":"invalid_request_error",'
    b'"param":null,"code":431}}'
)


def hang_up(scope: Scope) -> None:
    """End a request's connection at once: what its client has not taken yet is dropped, however long it would take."""
    abort = scope.get("state", {}).get(_HANG_UP)
    if abort is not None:
        abort()


class LimitedProtocol(HttpToolsProtocol):
    """Refuses a head over 64 KiB with 431, and closes a connection whose head takes longer than 30 seconds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()
        elif self._patience is None:
            self._wait_for_head()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()
        self.scope["state"][_HANG_UP] = self.transport.abort

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES:
            self._refuse()
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def _wait_for_head(self) -> None:
        self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self._in_head and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self) -> None:
        """Answer in shape and hang up; an answer that another request on this connection waits for is lost with it."""
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(_TOO_LARGE + b"content-length: %d\r\n\r\n" % len(_WORDS) + _WORDS)
            self.transport.close()
