"""Streams: ended with their reader, and an ordinary error as long as nothing was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from ebbtide.api.answers import PIECE_BYTES, Streamed, in_pieces, while_connected
from ebbtide.errors import NotFound

Message = MutableMapping[str, Any]
GET, HEAD = {"type": "http", "method": "GET"}, {"type": "http", "method": "HEAD"}


class Source:
    """Pieces to send; notes when it was closed."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.pieces = pieces
        self.error = error
        self.read = 0
        self.closed = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                self.read += 1
                yield piece
            if self.error is not None:
                raise self.error
        finally:
            self.closed.set()


async def connected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_stream_is_sent_whole() -> None:
    sent: list[Message] = []
    source = Source(b"a", b"b")

    async def send(message: Message) -> None:
        sent.append(message)

    await Streamed(source.chunks(), 206, {"x-a": "b"})(GET, connected, send)
    assert sent[0] == {"type": "http.response.start", "status": 206, "headers": [(b"x-a", b"b")]}
    assert b"".join(message["body"] for message in sent[1:]) == b"ab"
    assert [message["more_body"] for message in sent[1:]] == [True, True, False]
    assert source.closed.is_set()


async def test_a_known_length_ends_with_its_last_byte() -> None:
    sent: list[Message] = []
    source = Source(b"a", b"bc")

    async def send(message: Message) -> None:
        sent.append(message)
        assert not source.closed.is_set()  # a client that has everything may hang up before the source is done

    await Streamed(source.chunks(), headers={"content-length": "3"})(GET, connected, send)
    assert [(message["body"], message["more_body"]) for message in sent[1:]] == [(b"a", True), (b"bc", False)]
    assert source.closed.is_set()


@pytest.mark.parametrize("more", [True, False])
async def test_large_parts_go_in_pieces(more: bool) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    content = bytes(range(256)) * 1_025
    head = {"type": "http.response.start", "status": 200, "headers": []}
    await in_pieces(send)(head)
    await in_pieces(send)({"type": "http.response.body", "body": content, "more_body": more})
    assert sent[0] is head
    assert b"".join(message["body"] for message in sent[1:]) == content
    assert [len(message["body"]) for message in sent[1:]] == [PIECE_BYTES, PIECE_BYTES, 256]
    assert [message["more_body"] for message in sent[1:]] == [True, True, more]


async def test_head_reads_nothing_of_the_source() -> None:
    sent: list[Message] = []
    source = Source(b"a")

    async def send(message: Message) -> None:
        sent.append(message)

    await Streamed(source.chunks())(HEAD, connected, send)
    assert source.read == 0
    assert [message.get("body") for message in sent] == [None, b""]


async def test_what_fails_before_the_first_piece_starts_no_answer() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(NotFound):
        await Streamed(Source(error=NotFound("gone")).chunks())(GET, connected, send)
    assert sent == []


async def test_a_reader_that_goes_closes_the_source() -> None:
    source = Source(b"a", b"b")
    sending, leave = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sending.set()
            await asyncio.Event().wait()

    async def receive() -> Message:
        await leave.wait()
        return {"type": "http.disconnect"}

    answering = asyncio.create_task(Streamed(source.chunks())(GET, receive, send))
    await sending.wait()
    leave.set()
    with pytest.raises(ClientDisconnect):
        await answering
    assert source.closed.is_set()
    assert source.read == 1


async def test_work_that_is_done_wins_and_its_errors_come_through() -> None:
    async def fine() -> int:
        return 7

    async def broken() -> int:
        raise NotFound("gone")

    assert await while_connected(connected, fine()) == 7
    with pytest.raises(NotFound):
        await while_connected(connected, broken())


async def test_being_cancelled_cancels_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outer = asyncio.create_task(while_connected(connected, work()))
    await begun.wait()
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert ended.is_set()
