"""One try to deliver an event: DNS, connection, redirects and answer within one time limit, and how it went in words.

Connections go only to addresses that were just checked, for TLS with the name's certificate. Of the answer only the
status counts: its body is never read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ebbtide import __version__
from ebbtide.delivery.addresses import BadTarget, CheckedTarget, Resolve, check_target, resolve_host
from ebbtide.errors import SetupError

TIMEOUT_SECONDS: Final = 10.0
MAX_REDIRECTS: Final = 3
_REDIRECTS = frozenset({301, 302, 307, 308})  # 303 asks for a GET, which would lose the event
_HEADERS = {"Content-Type": "application/json", "User-Agent": f"Ebbtide/{__version__}"}


@dataclass(frozen=True, slots=True)
class Letter:
    """What is posted where. `allow_private` opens private and loopback addresses, and http."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    allow_private: bool


@dataclass(frozen=True, slots=True)
class Delivered:
    """A 2xx came back."""

    status: int


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Anything else, in words of ours; `status` when the receiver answered."""

    words: str
    status: int | None = None
    timed_out: bool = False


class Poster:
    """Posts events. `ca_file` holds certificate authorities to trust beside the system's. Raises SetupError."""

    def __init__(
        self, ca_file: Path | None = None, *, resolve: Resolve = resolve_host, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self._tls = _trust(ca_file)
        self._resolve = resolve
        self._timeout = timeout

    async def post(self, letter: Letter) -> Delivered | Undelivered:
        """Deliver once, following redirects."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._post(letter)
        except TimeoutError:
            return Undelivered(f"No answer within {self._timeout:g} seconds", timed_out=True)
        except BadTarget as refused:
            return Undelivered(f"Not sent: {refused.problem}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Undelivered(_words(error))

    async def _post(self, letter: Letter) -> Delivered | Undelivered:
        url, status = letter.url, 0
        for _ in range(1 + MAX_REDIRECTS):
            target = await check_target(url, self._resolve, allow_private=letter.allow_private)
            status, location = await self._send(target, letter)
            if status not in _REDIRECTS or location is None:
                if 200 <= status < 300:
                    return Delivered(status)
                return Undelivered(f"Answered with status {status}", status)
            url = str(target.url.join(URL(location)))
        return Undelivered(f"Redirected more than {MAX_REDIRECTS} times", status)

    async def _send(self, target: CheckedTarget, letter: Letter) -> tuple[int, str | None]:
        """Post to one address; the answer's status and where it points to."""
        connector = aiohttp.TCPConnector(
            resolver=_Pinned(target),
            socket_factory=_only_to(target),
            ssl=self._tls,
            use_dns_cache=False,
            force_close=True,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=False,
                trust_env=False,
            ) as session,
            session.post(
                target.url, data=letter.body, headers={**_HEADERS, **letter.headers}, allow_redirects=False
            ) as response,
        ):
            return response.status, response.headers.get("Location")


class _Pinned(AbstractResolver):
    """Knows one name, and for it the addresses that were checked."""

    def __init__(self, target: CheckedTarget) -> None:
        self._target = target

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._target.addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


def _only_to(target: CheckedTarget) -> Callable[[aiohttp.AddrInfoType], socket.socket]:
    """Makes sockets for the checked addresses alone, whatever asks for one."""

    def make(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, proto, _, address = info
        if address[0] not in target.addresses:
            raise ConnectionRefusedError("not the address that was checked")
        return socket.socket(family, kind, proto)

    return make


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:
            raise SetupError(f"EBBTIDE_WEBHOOK_CA_FILE: {ca_file} holds no certificates that can be read.") from error
    return context


def _words(error: Exception) -> str:
    """How a connection failed, without anything that the other side sent."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "The server's certificate is not valid for this name or not trusted"
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return "No TLS connection could be made"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "No connection could be made"
    if isinstance(error, aiohttp.ClientConnectionError | OSError):
        return "The connection was closed before an answer came"
    return "The answer was not HTTP"
