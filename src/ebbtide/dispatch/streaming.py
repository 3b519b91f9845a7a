"""A chat stream on its way to the caller: whole events, the model as the caller named it, the usage kept aside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace

from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import NO_OTHERS, Failed, Others, as_error
from ebbtide.dispatch.receive import Broken, Opened, StreamBroken
from ebbtide.dispatch.replies import Asked, judge_broken, judge_told
from ebbtide.dispatch.translation import stream_of
from ebbtide.errors import EbbtideError


class Streaming:
    """A stream that was opened. `failed` tells afterwards why it broke, None when it came whole.

    `begin` first, which waits for its first event: until then nothing was shown, and another route may take over.
    `others` are the calls made for the request before this one.
    """

    def __init__(self, opened: Opened, asked: Asked, created: int) -> None:
        self.route = asked.route.id
        self.failed: Failed | None = None
        self.others: Others = NO_OTHERS
        self._pieces = opened.pieces
        self._asked = asked
        self._chat = stream_of(asked.call, asked.route, created)
        self._first = b""
        self._begun = self._ended = False
        self._close: Callable[[], Awaitable[None]] = opened.pieces.aclose

    @property
    def usage(self) -> Usage | None:
        """What the stream used, as far as it was told: it comes last, so a stream that was left has none."""
        return self._chat.usage

    @property
    def came_whole(self) -> bool:
        """Whether its end was seen."""
        return self._chat.done

    async def begin(self, seconds: float | None) -> Failed | None:
        """Wait for what can be shown first; why there is none where it broke, or was not there after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not self._first and not self._ended:
                    self._first = await self._next()
        except TimeoutError:
            self.failed = judge_broken(Broken("first_byte_timeout", sent=True), self._asked)
        return self.failed

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events as bytes to send on, `[DONE]` last. Raises UpstreamFailed when the stream breaks before it."""
        shown, self._first = self._first, b""
        while True:
            if shown:
                yield shown
            if self._ended:
                break
            shown = await self._next()
        if self.failed is not None:
            raise as_error(self.failed)

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        """The event that ends the stream where it broke."""
        return self._chat.fail(error, request_id)

    def keep(self, close: Callable[[], Awaitable[None]]) -> None:
        """Let `close` be what closes the stream."""
        self._close = close

    async def close(self) -> None:
        """Close the upstream connection, wherever the stream stands."""
        await self._close()

    async def _next(self) -> bytes:
        """What the next piece adds to what is shown; sets `failed` and the end when there is no next one."""
        chat = self._chat
        try:
            piece = await anext(self._pieces, None)
        except StreamBroken as error:
            return self._end(b"", error.broken)
        if piece is None:
            return self._end(b"".join(chat.close()) if chat.error is None else b"", None)
        shown = b"".join(chat.feed(piece))
        self._begun |= bool(shown)
        return shown if chat.error is None else self._end(shown, None)

    def _end(self, shown: bytes, broken: Broken | None) -> bytes:
        self._ended = True
        self.failed = self._failure(broken)
        return shown

    def _failure(self, broken: Broken | None) -> Failed | None:
        chat, asked = self._chat, self._asked
        if chat.error is not None:
            return replace(judge_told(chat.error, chat.status, asked, chat.usage), begun=self._begun)
        if chat.done:
            return None
        return judge_broken(broken or Broken("reset", sent=True), asked, chat.usage)
