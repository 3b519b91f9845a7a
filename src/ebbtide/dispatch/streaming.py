"""A chat stream on its way to the caller: whole events, the model as the caller named it, the usage kept aside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ebbtide.dialects.openai.stream import ChatStream
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.outcome import Failed, as_error
from ebbtide.dispatch.replies import Asked, judge_broken, judge_told
from ebbtide.dispatch.send import Broken, Opened, StreamBroken


class Streaming:
    """A stream that began. `failed` tells afterwards why it broke, None when it came whole."""

    def __init__(self, opened: Opened, asked: Asked) -> None:
        self.route = asked.route.id
        self.failed: Failed | None = None
        self._pieces = opened.pieces
        self._asked = asked
        self._chat = ChatStream(asked.call.requested, show_usage=asked.call.asks_usage)

    @property
    def usage(self) -> Usage | None:
        """What the stream used, as far as it was told: it comes last, so a stream that was left has none."""
        return self._chat.usage

    @property
    def came_whole(self) -> bool:
        """Whether its end was seen."""
        return self._chat.done

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events as bytes to send on, `[DONE]` last. Raises UpstreamFailed when the stream breaks before it."""
        chat = self._chat
        broken: Broken | None = None
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    shown = b"".join(chat.feed(piece))
                    if shown:
                        yield shown
                    if chat.error is not None:
                        break
        except StreamBroken as error:
            broken = error.broken
        if broken is None and chat.error is None:
            shown = b"".join(chat.close())
            if shown:
                yield shown
        self.failed = self._failure(broken)
        if self.failed is not None:
            raise as_error(self.failed)

    def _failure(self, broken: Broken | None) -> Failed | None:
        chat, asked = self._chat, self._asked
        if chat.error is not None:
            return judge_told(chat.error, 502, asked, chat.usage)
        if chat.done:
            return None
        return judge_broken(broken or Broken("reset", sent=True), asked, chat.usage)
