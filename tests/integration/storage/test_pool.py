"""The pool: transactions, what counts as an unavailable database, and coming back by itself."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

import asyncpg
import pytest
from structlog.testing import capture_logs
from tests.logs import told

from ebbtide.errors import SetupError, Unavailable
from ebbtide.storage import pool
from ebbtide.storage.causes import CauseLog
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.pool import Database


async def read(database: Database, sql: str, timeout: float | None = None) -> object:
    async with database.connection() as connection:
        return await connection.fetchval(sql, timeout=timeout)


async def write(database: Database, sql: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(sql)


async def write_and_raise(database: Database, sql: str, error: BaseException) -> None:
    async with database.transaction() as connection:
        await connection.execute(sql)
        raise error


async def write_while_killed(database: Database, sql: str, postmaster: int | None) -> None:
    assert postmaster is not None
    async with database.transaction() as connection:
        await connection.execute(sql)
        os.kill(postmaster, signal.SIGKILL)
        await connection.execute("select pg_sleep(60)")


async def recovered(database: Database, sql: str) -> object:
    async with asyncio.timeout(30):
        while True:
            try:
                return await read(database, sql)
            except Unavailable:
                await asyncio.sleep(0.05)


async def test_a_transaction_commits(database: Database) -> None:
    await write(database, "create table t as select 7 as n")
    assert await read(database, "select n from t") == 7


async def test_a_transaction_rolls_back_on_an_exception(database: Database) -> None:
    await write(database, "create table t (n int)")
    with pytest.raises(RuntimeError, match="changed my mind"):
        await write_and_raise(database, "insert into t values (1)", RuntimeError("changed my mind"))
    assert await read(database, "select count(*) from t") == 0


async def test_mistakes_and_broken_constraints_stay_what_they_are(database: Database) -> None:
    await write(database, "create table t (n int primary key)")
    with pytest.raises(asyncpg.UndefinedTableError):
        await read(database, "select n from no_such_table")
    with pytest.raises(asyncpg.UniqueViolationError):
        await write(database, "insert into t values (1), (1)")
    with pytest.raises(asyncpg.DataError):
        async with database.connection() as connection:
            await connection.fetchval("select $1::int", "seven")
    with pytest.raises(FileNotFoundError):
        await write_and_raise(database, "insert into t values (1)", FileNotFoundError("not the database's"))


async def test_more_users_than_connections_take_turns(database_url: str) -> None:
    async with await Database.connect(database_url, max_size=2) as database:
        assert await asyncio.gather(*(read(database, f"select {n}") for n in range(50))) == list(range(50))


async def test_a_query_over_its_time_is_unavailable_and_the_pool_goes_on(database_url: str) -> None:
    async with await Database.connect(database_url, max_size=1) as database:
        with pytest.raises(Unavailable) as caught:
            await read(database, "select pg_sleep(60)", timeout=0.1)
        assert caught.value.retry_after == 5
        assert await read(database, "select 1") == 1


async def test_what_holds_the_database_up_is_told_apart_and_logged(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_CAUSES", CauseLog())
    full = (
        "do $$ begin raise exception 'could not extend file' using errcode = '53100', detail = 'row (secret)'; end $$"
    )
    slow = "set local statement_timeout = 50; select pg_sleep(60)"
    with capture_logs() as logs:
        for sql, words in [(full, "no room left"), (slow, "did not finish in time"), (full, "no room left")]:
            with pytest.raises(Unavailable, match=words):
                await write(database, sql)
        with pytest.raises(Unavailable, match="did not finish in time"):
            await read(database, "select pg_sleep(60)", timeout=0.1)
        with pytest.raises(Unavailable, match="cannot be reached"):
            await Database.connect("postgresql://ebbtide@127.0.0.1:1/postgres")
    causes = told(logs, "database_unavailable")
    assert [(entry["cause"], entry["sqlstate"], entry["stage"]) for entry in causes] == [
        ("DiskFullError", "53100", "query"),
        ("QueryCanceledError", "57014", "query"),
        ("TimeoutError", None, "query"),
        ("ConnectionRefusedError", None, "connecting"),
    ]
    assert causes[0]["reason"] == "could not extend file"
    assert "secret" not in str(logs)


async def test_a_session_ended_by_the_server_is_unavailable_and_the_pool_goes_on(database_url: str) -> None:
    async with await Database.connect(database_url, max_size=1) as database:
        with pytest.raises(Unavailable):
            await read(database, "select pg_terminate_backend(pg_backend_pid())")
        assert await recovered(database, "select 1") == 1


async def write_when_free(database: Database, held: Database, sql: str) -> None:
    """Lock a row through `held`, do nothing with it, and change it through `database`, which has to wait."""
    async with held.transaction() as connection:
        await connection.execute("update t set n = 0")
        await write(database, sql)
        await connection.execute("select 1")


async def test_a_frozen_transaction_gives_its_locks_back(database: Database, database_url: str) -> None:
    """Its process may be stopped or cut off: the server waits for a while, and no longer."""
    await write(database, "create table t as select 7 as n")
    async with await Database.connect(database_url, idle_timeout=1.0) as frozen:
        with pytest.raises(Unavailable):
            await write_when_free(database, frozen, "update t set n = n + 2")
        assert await read(frozen, "select n from t") == 9


async def test_a_server_killed_and_restarted_is_found_again(data_dir: Path) -> None:
    async with (
        EmbeddedServer(data_dir, fsync=False) as server,
        await Database.connect(server.url) as database,
    ):
        await write(database, "create table kept as select 7 as n")
        with pytest.raises(Unavailable):
            await write_while_killed(database, "insert into kept values (8)", server.cluster.postmaster())
        assert await recovered(database, "select sum(n) from kept") == 7


async def test_a_pooler_is_told_from_a_server(database: Database, listen_url: str) -> None:
    assert database.pooled == (urlsplit(database.url).query != urlsplit(listen_url).query)


async def test_nobody_at_the_address_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        await Database.connect("postgresql://ebbtide@127.0.0.1:1/postgres")


async def test_a_database_that_does_not_exist_is_a_mistake_of_the_setup(listen_url: str) -> None:
    with pytest.raises(SetupError, match="does not exist"):
        await Database.connect(urlunsplit(urlsplit(listen_url)._replace(path="/no_such_database")))


async def test_a_url_that_is_none_is_a_mistake_of_the_setup() -> None:
    with pytest.raises(SetupError):
        await Database.connect("http://127.0.0.1/postgres")


class Wire:
    """A TCP way to the database that can go dead without closing, as a lost network does."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._cut = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = self._target.netloc.rpartition("@")[0] or "postgres"
        return f"postgresql://{user}@127.0.0.1:{port}{self._target.path}"

    def cut(self) -> None:
        self._cut = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await self._open()
        for source, target in ((reader, server_writer), (server_reader, writer)):
            task = asyncio.create_task(self._forward(source, target))
            self._tasks.add(task)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder = parse_qs(self._target.query).get("host", [""])[0]
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{self._target.port or 5432}")
        return await asyncio.open_connection(self._target.hostname, self._target.port or 5432)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                if not self._cut:
                    target.write(data)
        finally:
            target.close()


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    async with Wire(database_url) as wire:
        yield wire


async def test_the_kernel_watches_over_a_network_connection(wire: Wire) -> None:
    async with await Database.connect(wire.url) as database, database.connection() as connection:
        link = getattr(connection, "_transport").get_extra_info("socket")  # noqa: B009  (not in asyncpg's stubs)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


async def test_a_network_that_goes_dead_holds_nobody_for_ever(wire: Wire) -> None:
    database = await Database.connect(wire.url, max_size=1)
    assert await read(database, "select 1") == 1
    wire.cut()
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable):
            await read(database, "select 1", timeout=0.1)
    await database.close()


async def test_the_loser_of_a_deadlock_may_try_again(database: Database) -> None:
    await write(database, "create table pair (id int primary key, n int not null)")
    await write(database, "insert into pair values (1, 0), (2, 0)")
    first_holds, second_holds = asyncio.Event(), asyncio.Event()

    async def take(first: int, second: int, mine: asyncio.Event, other: asyncio.Event) -> None:
        async with database.transaction() as connection:
            await connection.execute("update pair set n = n + 1 where id = $1", first)
            mine.set()
            await other.wait()
            await connection.execute("update pair set n = n + 1 where id = $1", second)

    ends = await asyncio.gather(
        take(1, 2, first_holds, second_holds), take(2, 1, second_holds, first_holds), return_exceptions=True
    )
    assert [type(end) for end in ends if end is not None] == [Unavailable]
    assert await read(database, "select sum(n) from pair") == 2
