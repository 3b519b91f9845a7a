"""Reads what upstreams answer, whole or piece by piece, and tells how a connection failed.

What is told apart here is what the rules of retrying rest on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp
import msgspec

_MAX_ERROR_BYTES: Final = 256 * 1024


class Reply(msgspec.Struct, frozen=True):
    """An upstream's answer as it came. `body` is cut short for an error that is very long."""

    status: int
    body: bytes
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """No whole answer. `sent` tells whether the upstream may have seen the request; `why` tells an operator more than
    its kind does.
    """

    kind: Literal[
        "refused",
        "connect_timeout",
        "reset",
        "timeout",
        "first_byte_timeout",
        "gap_timeout",
        "malformed",
        "too_large",
    ]
    sent: bool
    why: str | None = field(default=None, compare=False)

    @property
    def told(self) -> str:
        """How it went, in words for an operator."""
        return self.why or self.kind.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream that began: raw bytes as they come. The iterator raises StreamBroken."""

    pieces: AsyncGenerator[bytes, None]


class StreamBroken(Exception):
    """A stream ended before its end."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.kind)
        self.broken = broken


class NoFirstByte(TimeoutError):
    """An answer did not begin in time."""


def how_it_broke(error: BaseException) -> Broken:
    """What an error of the client's means, and whether the request may have been seen."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Broken("connect_timeout", sent=False)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Broken("refused", sent=False, why="no such host")
    if isinstance(error, aiohttp.ClientConnectorError):
        return Broken("refused", sent=False)
    if isinstance(error, NoFirstByte):
        return Broken("first_byte_timeout", sent=True)
    if isinstance(error, aiohttp.SocketTimeoutError):
        return Broken("gap_timeout", sent=True)
    if isinstance(error, TimeoutError):
        return Broken("timeout", sent=True)
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError | OSError):
        return Broken("reset", sent=True)
    return Broken("malformed", sent=True)


async def read_answer(response: aiohttp.ClientResponse, max_bytes: int) -> Reply | Broken:
    """The whole answer; `max_bytes` limits a good one. Raises what aiohttp raises."""
    good = response.status == 200
    limit = max_bytes if good else _MAX_ERROR_BYTES
    headers = response.headers
    length = response.content_length
    if length is not None and length <= limit:
        body = await response.read()
    else:
        body, whole = await _read_some(response, limit)
        if not whole:
            response.close()
            if good:
                return Broken("too_large", sent=True)
    if good and headers.get("Content-Encoding", "identity") != "identity":
        return Broken("malformed", sent=True)
    return Reply(response.status, body, headers.get("Retry-After"))


async def _read_some(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """At most about `limit` bytes, and whether that was all."""
    pieces: list[bytes] = []
    size = 0
    if response.content_length is not None and response.content_length > limit and response.status == 200:
        return b"", False
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            return b"".join(pieces), False
        pieces.append(piece)
    return b"".join(pieces), True


async def read_safely(response: aiohttp.ClientResponse, max_bytes: int) -> Reply | Broken:
    """The same, of an answer that breaks too."""
    try:
        return await read_answer(response, max_bytes)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return how_it_broke(error)


async def pieces_of(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """An answer's bytes as they come. Raises StreamBroken."""
    try:
        async for piece in response.content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise StreamBroken(how_it_broke(error)) from error
