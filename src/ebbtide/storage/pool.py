"""The way to PostgreSQL: one pool for each process, every query under a timeout, losses told as `Unavailable`.

Nothing here or above keeps session state (SET, session locks, temporary tables), so the same code runs on a direct
connection and behind a pooler in transaction mode, where one transaction may follow another on a different server.
The server ends a transaction in which nothing happens for a while: its process is frozen or out of reach, and holds up
all others with its locks.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from ebbtide.errors import SetupError, Unavailable
from ebbtide.storage.causes import CauseLog, Stage, in_words
from ebbtide.storage.queries import load_queries

if TYPE_CHECKING:  # asyncpg's classes take type arguments in their stubs only
    _Direct: TypeAlias = asyncpg.Connection[asyncpg.Record]
    _Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = _Direct | PoolConnectionProxy[asyncpg.Record]
else:
    _Direct, _Pool = asyncpg.Connection, asyncpg.Pool
    Connection = asyncpg.Connection | PoolConnectionProxy

QUERY_TIMEOUT = 30.0
IDLE_TIMEOUT = 45.0  # between two statements of a transaction
CONNECT_TIMEOUT = 10.0
RELEASE_TIMEOUT = 2.0  # for the server to acknowledge a query's cancellation; then the connection is dropped
RETRY_AFTER = 5.0
APPLICATION = "ebbtide"

_SQL = load_queries("ebbtide.storage", "pool.sql")
_CAUSES = CauseLog()
# Classes 08, 40, 53 and 57 of the SQLSTATE table, a server that became read-only, and plans that a migration outdated.
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)
_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ClientConfigurationError,
    asyncpg.TargetServerAttributeNotMatched,
)
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class SessionlessConnection(_Direct):
    """A connection that needs no cleaning between users, since nobody leaves session state behind."""

    __slots__ = ()
    _transport: asyncio.Transport  # asyncpg has no public way to its socket and no keepalive option of its own

    def get_reset_query(self) -> str:
        return ""

    def keep_alive(self) -> None:
        """Let the kernel notice a peer that went away without a word, also while no query runs."""
        link = self._transport.get_extra_info("socket")
        if link is None or link.family not in (socket.AF_INET, socket.AF_INET6):
            return
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if hasattr(socket, option):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Database:
    """A pool of connections to one PostgreSQL database. Make one with `connect`, end it with `close`."""

    def __init__(self, pool: _Pool, urls: tuple[str, str], pooled: bool, idle_timeout: float) -> None:
        self._pool = pool
        self.url, self.listen_url = urls
        self.pooled = pooled
        self._idle_timeout = _milliseconds(idle_timeout)

    @classmethod
    async def connect(
        cls, url: str, *, listen_url: str | None = None, max_size: int = 10, idle_timeout: float = IDLE_TIMEOUT
    ) -> Database:
        """Reach the database at `url`; `listen_url` is a direct way to it, where `url` leads through a pooler.

        Raises SetupError when the URL, the name or the password is wrong, Unavailable when nobody answers.
        """
        with translated(None):
            try:
                pooled = await _behind_pooler(url)
            except _REFUSED as error:
                raise SetupError(f"The database refuses the connection: {error}") from error
            pool = await asyncpg.create_pool(
                url,
                min_size=0,
                max_size=max_size,
                connection_class=SessionlessConnection,
                statement_cache_size=0 if pooled else 256,
                command_timeout=QUERY_TIMEOUT,
                timeout=CONNECT_TIMEOUT,
                init=_prepare,
                server_settings={"application_name": APPLICATION} | _while_direct(pooled, idle_timeout),
            )
        return cls(pool, (url, listen_url or url), pooled, idle_timeout)

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; those still in use after the connect timeout are cut."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    @property
    def connections(self) -> tuple[int, int]:
        """How many of the pool's connections are used, and how many idle."""
        size, idle = self._pool.get_size(), self._pool.get_idle_size()
        return size - idle, idle

    async def check(self) -> None:
        """Ask it something. Raises Unavailable when it is away."""
        async with self.connection() as connection:
            await connection.execute(_SQL["check"])

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """BEGIN on entry, COMMIT on exit, ROLLBACK on an exception.

        Raises Unavailable when the database is away. Lost during the COMMIT itself, it may have taken place.
        """
        async with self._acquired() as connection, connection.transaction():
            if self.pooled:
                # A SET and no query: after one, whoever opened the transaction could not choose its isolation.
                await connection.execute(f"set local idle_in_transaction_session_timeout = '{self._idle_timeout}'")
            yield connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """For reads and single statements: each statement commits by itself, except behind a pooler, where one
        transaction holds them all so that a statement is prepared and run on the same server.

        Raises Unavailable when the database is away.
        """
        async with self._acquired() as connection:
            if not self.pooled:
                yield connection
                return
            async with connection.transaction():
                yield connection

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[Connection]:
        with translated(None):
            connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT)
        try:
            with translated(connection):
                yield connection
        finally:
            with translated(connection):
                await self._pool.release(connection, timeout=RELEASE_TIMEOUT)


def _while_direct(pooled: bool, idle_timeout: float) -> dict[str, str]:
    """Settings of a session that is ours alone; a pooler takes none."""
    return {} if pooled else {"idle_in_transaction_session_timeout": _milliseconds(idle_timeout)}


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


async def connect_alone(url: str) -> Connection:
    """A connection outside the pool, to be closed by the caller."""
    connection = await asyncpg.connect(
        url,
        connection_class=SessionlessConnection,
        statement_cache_size=0,
        timeout=CONNECT_TIMEOUT,
        command_timeout=QUERY_TIMEOUT,
        server_settings={"application_name": APPLICATION},
    )
    await _prepare(connection)
    return connection


async def runs_elsewhere(connection: Connection) -> bool:
    """Whether a pooler answers: the server process it names is then not the one that runs our query."""
    # In a transaction, since a pooler may otherwise run the statement on another server than it was prepared on.
    async with connection.transaction():
        return bool(await connection.fetchval(_SQL["own_process"]) != connection.get_server_pid())


async def _behind_pooler(url: str) -> bool:
    connection = await connect_alone(url)
    try:
        return await runs_elsewhere(connection)
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT)


async def _prepare(connection: Connection) -> None:
    if isinstance(connection, SessionlessConnection):
        connection.keep_alive()


@contextmanager
def translated(connection: Connection | None) -> Iterator[None]:
    """Raise Unavailable for what a lost or missing database causes; every other exception stays as it is.

    `connection` is None while there is none yet: then whatever goes wrong on the way to it counts.
    """
    try:
        yield
    except (*_LOST, TimeoutError) as error:
        raise _unavailable(connection, error) from error
    except (*_REFUSED, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        # On a living connection these are a mistake of the caller, or come from something else in the block.
        if connection is not None and _lives(connection):
            raise
        raise _unavailable(connection, error) from error


def _lives(connection: Connection) -> bool:
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False  # the pool has taken it back, as it does with one that was lost


def _unavailable(connection: Connection | None, error: Exception) -> Unavailable:
    stage: Stage = "connecting" if connection is None else "query"
    _CAUSES.tell(error, stage)
    return Unavailable(in_words(error, stage), retry_after=RETRY_AFTER)
