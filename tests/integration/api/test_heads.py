"""A request's head is limited, in whatever pieces it comes; what lies about its body's length is refused."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from tests.gateway import TestGateway

from ebbtide.api import protocol


async def exchange(gateway: TestGateway, *pieces: bytes) -> bytes:
    """Everything that is answered on one connection until it is closed."""
    parts = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionResetError:
        return b"reset"
    finally:
        writer.close()


@pytest.mark.parametrize("name", [b"x-long: ", b"x-many: 1\r\nx-long: "])
async def test_headers_over_the_limit_are_refused(gateway: TestGateway, name: bytes) -> None:
    head = b"GET /health HTTP/1.1\r\nhost: x\r\n" + name
    for pieces in ((head + b"a" * 70_000 + b"\r\n\r\n",), (head, b"a" * 40_000, b"a" * 40_000)):
        answer = await exchange(gateway, *pieces)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b'"code":431' in answer


async def test_a_head_that_never_ends_is_given_up(gateway: TestGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
    assert await exchange(gateway, b"GET /health HTTP/1.1\r\nhost:") == b""


async def test_several_requests_on_a_connection_have_a_limit_each(gateway: TestGateway) -> None:
    one = b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: " + b"a" * 40_000 + b"\r\n"
    answer = await exchange(gateway, one + b"\r\n", one + b"connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 ") == 2


async def test_a_length_and_chunks_at_once_are_refused(gateway: TestGateway) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = await exchange(gateway, head + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
