"""A way to the database that tests cut and mend, as a network does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit, urlunsplit


class Wire:
    """A TCP way to the database that can be cut and mended."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
        self._port = int(parse_qs(parts.query).get("port", [parts.port or 5432])[0])
        self._ends: set[asyncio.StreamWriter] = set()
        self._parts = parts
        self.cut = False

    @asynccontextmanager
    async def url(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        user = self._parts.netloc.rpartition("@")[0]
        yield urlunsplit(self._parts._replace(netloc=f"{user}@{host}:{port}" if user else f"{host}:{port}", query=""))
        self.sever()
        server.close()
        await server.wait_closed()

    def sever(self) -> None:
        self.cut = True
        for end in self._ends:
            end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        if self.cut:
            writer.transport.abort()
            return
        if self._host.startswith("/"):
            ways = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            ways = await asyncio.open_connection(self._host, self._port)
        self._ends.add(ways[1])
        await asyncio.gather(_pump(reader, ways[1]), _pump(ways[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except OSError:
        pass
    writer.transport.abort()
