"""Connections to upstreams, kept for the next request.

Some servers close a connection although they said that they would keep it, right after an answer: llama.cpp's does so
after each stream. A request that is on its way then is lost, and may not be sent twice. So a connection rests for a
moment after a stream, in which the end would be seen.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

# Servers commonly close an idle connection after five seconds; using one just then would lose a request.
_KEEPALIVE_SECONDS: Final = 4.0
REST_SECONDS: Final = 0.05


@dataclass(slots=True)
class Use:
    """What a stream learns while it is asked for: its connection."""

    protocol: ResponseHandler | None = None


STREAM: Final[ContextVar[Use | None]] = ContextVar("stream", default=None)
"""Set while a stream is asked for."""


class Connections(aiohttp.TCPConnector):
    """Every connection of a Sender."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS)
        self._resting: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A kept connection that does not rest, or a new one."""
        passed_over: list[Connection] = []
        try:
            while (connection := await super().connect(req, traces, timeout)).protocol in self._resting:
                passed_over.append(connection)
        finally:
            for one in passed_over:
                one.release()
        use, protocol = STREAM.get(), connection.protocol
        if use is not None and protocol is not None:
            use.protocol = protocol
            self._resting.add(protocol)
        return connection

    def let_rest(self, use: Use) -> None:
        """A stream has ended: its connection may be used again in a moment."""
        if use.protocol is not None:
            asyncio.get_running_loop().call_later(REST_SECONDS, self._resting.discard, use.protocol)
