"""Interactive requests as a whole: let in, sent, answered, and whatever happens, charged and logged once.

Also when the client hangs up, a stream breaks or the gateway stops: then without a cost, unless it is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast

from ebbtide.accounts.store import Principal
from ebbtide.clock import Clock
from ebbtide.dialects.values import Target
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered
from ebbtide.errors import EbbtideError, LimitReached
from ebbtide.proxy.admission import Admission, Admitted
from ebbtide.proxy.exchange import CLIENT_CLOSED, Exchange
from ebbtide.proxy.forward import Ask, forward
from ebbtide.proxy.stream import forward_stream
from ebbtide.records.request_log import RequestLog

_ALMOST = 0.98  # of the time a request may take: cut off after that, it was for the time


class Interactive:
    """Interactive requests of this process. `is_stopping` tells whether requests are being broken off for good."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        admission: Admission,
        log: RequestLog,
        clock: Clock,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._dispatcher = dispatcher
        self._admission = admission
        self._log = log
        self._clock = clock
        self._is_stopping = is_stopping

    async def begin(self, principal: Principal, request_id: str, target: Target) -> Exchange:
        """A request that has authenticated. Raises Unavailable while nothing more can be recorded."""
        await self._log.wait_for_room()
        return Exchange(principal, request_id, target, _now())

    @contextmanager
    def refusals(self, exchange: Exchange) -> Iterator[None]:
        """Log a request that is refused before it could be run."""
        try:
            yield
        except EbbtideError as error:
            exchange.refused(error)
            self._end(exchange)
            raise

    async def forward(self, exchange: Exchange, ask: Ask) -> Answered:
        """The upstream's answer, naming the model as the caller did. Raises UpstreamFailed, LimitReached, Unavailable.

        Cancelling cancels upstream.
        """
        with self._recorded(exchange, ask):
            await self._enter(exchange, ask)
            answered = await forward(self._dispatcher, ask, exchange.answered, exchange.departure)
            exchange.told(answered.body)
            return answered

    async def stream(self, exchange: Exchange, ask: Ask) -> AsyncGenerator[bytes, None]:
        """The bytes of a stream, an empty piece first once it began; raises as `forward` does while it has not."""
        exchange.streamed = True
        with self._recorded(exchange, ask):
            await self._enter(exchange, ask)
            async with forward_stream(self._dispatcher, ask, exchange.answered, exchange.departure) as events:
                try:
                    yield b""  # it began: the answer's head may go out before the model's first word
                    async with aclosing(cast("AsyncGenerator[bytes, Any]", aiter(events))) as pieces:
                        async for piece in pieces:
                            if exchange.first_token_ms is None:
                                exchange.first_token_ms = round((_now() - exchange.began) * 1000)
                            exchange.told(piece)
                            yield piece
                finally:
                    exchange.streamed_out(events.streaming, ask.model)

    async def _enter(self, exchange: Exchange, ask: Ask) -> None:
        try:
            exchange.admitted = await self._admission.enter(exchange.principal, ask)
        except LimitReached as error:
            exchange.headers += _headers_of_refusal(error)
            raise
        exchange.headers += _headers(exchange.admitted)
        exchange.capture = self._log.captures.begin(ask.body.raw, streamed=exchange.streamed)
        exchange.sent()

    @contextmanager
    def _recorded(self, exchange: Exchange, ask: Ask) -> Iterator[None]:
        try:
            yield
        except EbbtideError as error:
            if exchange.status == 200:  # no outcome says why
                exchange.refused(error)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            exchange.cut_off(*self._why_cut_off(exchange, ask))
            raise
        except Exception:
            exchange.cut_off(500, "internal")
            raise
        finally:
            self._end(exchange)

    def _why_cut_off(self, exchange: Exchange, ask: Ask) -> tuple[int, str]:
        if _now() - exchange.began >= ask.timeouts.total * _ALMOST:
            return 504, "timeout"
        return (503, "gateway_stopping") if self._is_stopping() else (CLIENT_CLOSED, "client_closed")

    def _end(self, exchange: Exchange) -> None:
        now = _now()
        entry = exchange.entry(self._clock.now(), now)
        admitted = exchange.admitted
        if admitted is None:
            self._log.put(entry)
            return
        self._admission.leave(admitted, exchange.cost)
        hold = admitted.hold
        self._log.put(entry, None if hold is None else lambda: hold.written(_now()), exchange.capture)


def _headers(admitted: Admitted) -> list[tuple[bytes, bytes]]:
    """How many requests the account may have running at once, and how many more it may start now."""
    if not admitted.cap:
        return []
    remaining = admitted.remaining
    return [
        (b"x-ratelimit-limit-requests", b"%d" % admitted.cap),
        (b"x-ratelimit-remaining-requests", b"%d" % remaining),
        (b"x-ratelimit-reset-requests", b"0s" if remaining else b"1s"),
    ]


def _headers_of_refusal(error: LimitReached) -> list[tuple[bytes, bytes]]:
    wait = b"%ds" % max(1, round(error.retry_after or 1))
    return [(b"x-ratelimit-remaining-requests", b"0"), (b"x-ratelimit-reset-requests", wait)]


def _now() -> float:
    return asyncio.get_running_loop().time()
