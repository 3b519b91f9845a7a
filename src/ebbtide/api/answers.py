"""What goes back to the caller: JSON answers and pages, streams that end with their reader, errors in the dialect's
shape.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ebbtide.dialects.base import Caller
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.errors import EbbtideError, UpstreamFailed

Answer = TypeVar("Answer")
Wire = TypeVar("Wire")
_encode = msgspec.json.Encoder().encode
PIECE_BYTES: Final = 128 * 1024


class OutOfTime(UpstreamFailed):
    """A request took longer than it may; what waits to be sent of its answer is dropped."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The request took longer than {seconds} seconds", status=504, code="timeout")


def answer_json(value: object, status: int = 200) -> Response:
    """A JSON answer of a msgspec Struct or plain data."""
    return Response(_encode(value), status, media_type="application/json")


def answer_error(error: EbbtideError, caller: Caller, request_id: str) -> Response:
    """An error as the caller's dialect words it."""
    status, headers, body = caller.render_error(error, request_id)
    return Response(body, status, headers)


class Streamed(Response):
    """An answer sent piece by piece; what its source raises before the first piece is still an ordinary error.

    When the client goes away, the source is closed and ClientDisconnect raised. HEAD reads nothing. The last byte of a
    known length ends the answer: what the source does after it takes nothing from a client that hangs up content.
    """

    def __init__(self, chunks: AsyncIterator[bytes], status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._chunks = cast("AsyncGenerator[bytes, None]", chunks)
        self.status_code = status
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(receive, self._send(scope["method"], send))

    async def _send(self, method: str, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            first = b"" if method == "HEAD" else await anext(chunks, b"")
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            left = int(self.headers.get("content-length", -1)) - len(first)  # negative: no length is known
            if method != "HEAD":
                await send({"type": "http.response.body", "body": first, "more_body": left != 0})
                async for chunk in chunks:
                    left -= len(chunk)
                    await send({"type": "http.response.body", "body": chunk, "more_body": left != 0})
            if method == "HEAD" or left != 0:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def in_pieces(send: Send) -> Send:
    """`send`, but a large part of an answer goes in pieces: a slow reader keeps no more than one waiting in memory.

    So whoever waits for `send` waits for the reader, and can lose patience.
    """

    async def send_in_pieces(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= PIECE_BYTES:
            await send(message)
            return
        for start in range(0, len(body), PIECE_BYTES):
            more = message.get("more_body", False) or start + PIECE_BYTES < len(body)
            await send({"type": message["type"], "body": body[start : start + PIECE_BYTES], "more_body": more})

    return send_in_pieces


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Do `work` and return what it returns, but cancel it and raise ClientDisconnect when the client goes away.

    The request's body must have been read: what `receive` still tells is only the end of the connection.
    The work is done in the caller's own task: one more for each request, and waiting for two, costs thrice as much.
    """
    task = asyncio.current_task()
    assert task is not None
    before, leaving = task.cancelling(), asyncio.ensure_future(_disconnected(receive))
    left = False

    def leave(watcher: asyncio.Future[None]) -> None:
        nonlocal left
        if not watcher.cancelled():
            left = True
            task.cancel()

    leaving.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if left and task.uncancel() <= before:
            raise ClientDisconnect from None
        raise
    finally:
        leaving.remove_done_callback(leave)
        leaving.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def list_page(data: list[Wire], names: Sequence[str], has_more: bool) -> ListPage[Wire]:
    """A page of wire objects; `names` are their ids, the last of which is the cursor of the next page."""
    first, last = (names[0], names[-1]) if names else (None, None)
    return ListPage(data=data, has_more=has_more, first_id=first, last_id=last)
