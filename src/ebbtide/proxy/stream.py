"""Interactive answers as server-sent events.

What fails before the first byte is an ordinary error; what fails later ends the stream with an error event and
without its usual end. When the client goes, closing the stream closes the upstream connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from ebbtide.catalog.model import Model
from ebbtide.dispatch.course import Departure
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Failed, as_error
from ebbtide.dispatch.streaming import Streaming
from ebbtide.errors import UpstreamFailed
from ebbtide.proxy.forward import Ask

MEDIA_TYPE = "text/event-stream"


class Events:
    """The bytes of a stream that began; iterate once. `usage`, `failed` and `route` are those of `streaming`."""

    def __init__(self, streaming: Streaming, ask: Ask) -> None:
        self.streaming = streaming
        self._ask = ask

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.streaming.events()) as events:
            try:
                async for event in events:
                    yield event
            except UpstreamFailed as error:
                yield self.streaming.fail(error, self._ask.request_id)


@asynccontextmanager
async def forward_stream(
    dispatcher: Dispatcher,
    ask: Ask,
    on_failed: Callable[[Failed, Model], None] | None = None,
    departure: Departure | None = None,
) -> AsyncIterator[Events]:
    """Open a stream; raises UpstreamFailed when none begins, told to `on_failed` first. Leaving the context closes it
    upstream; `departure` tells what had been sent before it began.
    """
    async with dispatcher.stream(ask.call(), departure) as opened:
        if isinstance(opened, Failed):
            if on_failed is not None:
                on_failed(opened, ask.model)
            raise as_error(opened)
        yield Events(opened, ask)
