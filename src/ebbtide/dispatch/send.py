"""Sends requests to upstreams and returns the raw answer, or how the connection failed; judges nothing.

One session for the process; URL and headers of a route are prepared once. Redirects are not followed, cookies not
kept, proxies of the environment not used.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from types import TracebackType
from typing import TypeAlias
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from ebbtide import tracing
from ebbtide.catalog.model import Route
from ebbtide.dialects.values import Wire
from ebbtide.dispatch import standin
from ebbtide.dispatch.connections import STREAM, Connections, Use
from ebbtide.dispatch.kinds import headers_of, key_header, url_of
from ebbtide.dispatch.outcome import Timeouts
from ebbtide.dispatch.receive import (
    Broken,
    NoFirstByte,
    Opened,
    Reply,
    how_it_broke,
    pieces_of,
    read_answer,
    read_safely,
)
from ebbtide.errors import UpstreamFailed

_AT_ONCE = 256 * 1024  # a larger body goes out piece by piece
_MAX_LIST_BYTES = 16 * 1024 * 1024
_LIST_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)


class Request(msgspec.Struct, frozen=True):
    """One POST to one route, with the API key to use, if any.

    `headers` are those that the caller's own go over into.
    """

    route: Route
    wire: Wire
    body: bytes
    timeouts: Timeouts
    max_bytes: int
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Sender:
    """HTTP to upstreams, and the stand-in. Cancelling a call closes its connection. Close it in the loop it ran in."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._connections: Connections
        self._prepared: WeakKeyDictionary[Route, dict[tuple[Wire, str | None, bool], _Prepared]] = WeakKeyDictionary()

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, request: Request) -> Reply | Broken:
        """Send the request and read the whole answer, up to its limit."""
        if request.route.kind == "standin":
            return await _ask_standin(request)
        try:
            async with await self._post(request, stream=False) as response:
                return await read_answer(response, request.max_bytes)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return how_it_broke(error)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Opened | Reply | Broken]:
        """Open a stream. A Reply stands for an answer that is not one (an error, say), read whole.

        Leaving the context closes the connection, wherever the stream stands.
        """
        if request.route.kind == "standin":
            yield Opened(_stream_standin(request))
            return
        try:
            response, use = await self._post_for_stream(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            yield how_it_broke(error)
            return
        try:
            async with response:
                if response.status == 200 and response.content_type == "text/event-stream":
                    yield Opened(pieces_of(response))
                else:
                    yield await read_safely(response, request.max_bytes)
        finally:
            self._connections.let_rest(use)

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Reply | Broken:
        """What is answered to a GET within some seconds, up to 16 MiB."""
        try:
            async with self._open().get(url, headers=headers, timeout=_LIST_TIMEOUT, allow_redirects=False) as response:
                return await read_answer(response, _MAX_LIST_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return how_it_broke(error)

    async def fetch(self, url: str, key: str | None = None) -> bytes:
        """The body of a 200, of a server of OpenAI's kind. Raises UpstreamFailed in words."""
        reply = await self.get(url, key_header("openai", key))
        if isinstance(reply, Broken):
            raise UpstreamFailed(f"No answer ({reply.told})", status=502)
        if reply.status in (401, 403):
            words = f"It refuses the key, or wants one ({reply.status}): --upstream-key-env names where it is held"
            raise UpstreamFailed(words, status=502)
        if reply.status != 200:
            raise UpstreamFailed(f"It answered with status {reply.status}", status=502)
        return reply.body

    async def _post(self, request: Request, *, stream: bool) -> aiohttp.ClientResponse:
        """The answer's head. Raises what aiohttp raises, and NoFirstByte."""
        url, headers = self._prepare(request, stream=stream)
        asked = self._open().post(
            url,
            data=request.body if len(request.body) <= _AT_ONCE else io.BytesIO(request.body),
            headers=_of_request(headers, request.headers),
            timeout=_client_timeout(request.timeouts),
            allow_redirects=False,
        )
        seconds = request.timeouts.first_byte
        if seconds is None:
            return await asked
        try:
            async with asyncio.timeout(seconds) as within:
                return await asked
        except TimeoutError:
            if within.expired():
                raise NoFirstByte from None
            raise

    async def _post_for_stream(self, request: Request) -> tuple[aiohttp.ClientResponse, Use]:
        use = Use()
        asking = STREAM.set(use)
        try:
            return await self._post(request, stream=True), use
        finally:
            STREAM.reset(asking)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._connections = Connections()
            self._session = aiohttp.ClientSession(
                connector=self._connections,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("Accept", "User-Agent"),
                trust_env=False,
            )
        return self._session

    def _prepare(self, request: Request, *, stream: bool) -> _Prepared:
        prepared = self._prepared.setdefault(request.route, {})
        asked = (request.wire, request.key, stream)
        if asked not in prepared:
            headers = CIMultiDict(
                {"Accept-Encoding": "identity", "Content-Type": "application/json", "User-Agent": "ebbtide"}
            )
            headers.update(headers_of(request.route, request.key))
            prepared[asked] = URL(url_of(request.route, request.wire, stream=stream)), headers
        return prepared[asked]


_Prepared: TypeAlias = tuple[URL, CIMultiDict[str]]


def _of_request(headers: CIMultiDict[str], own: Sequence[tuple[str, str]]) -> CIMultiDict[str]:
    """A route's headers, with the request's own and what tells of the request that is running."""
    told = tracing.outgoing_headers()
    if not told and not own:
        return headers
    headers = CIMultiDict(headers, **told)
    headers.update(own)
    return headers


@lru_cache(maxsize=64)
def _client_timeout(timeouts: Timeouts) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=timeouts.total, connect=timeouts.connect, sock_read=timeouts.gap)


async def _ask_standin(request: Request) -> Reply:
    if request.route.latency:
        await asyncio.sleep(request.route.latency)
    return Reply(200, standin.answer(request.wire, request.body, request.route.model))


async def _stream_standin(request: Request) -> AsyncGenerator[bytes, None]:
    frames = standin.chunks(request.body, request.route.model)
    for frame in frames:
        await asyncio.sleep(request.route.latency / len(frames))
        yield frame
