"""Migrations: once however many start together, usable when interrupted, refused when the database is not ours."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator

import pytest

from ebbtide.errors import SetupError, Unavailable
from ebbtide.storage.migrate import MIGRATIONS, SCHEMA_VERSION, Migration, check_server, migrate
from ebbtide.storage.pool import Database

_MIGRATE = """
import asyncio, sys
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database

async def main():
    async with await Database.connect(sys.argv[1]) as database:
        print(*await migrate(database), flush=True)

asyncio.run(main())
"""
_FIRST = Migration(1, "first", "create table one (n int)")
_SECOND = Migration(2, "second", "create table two (n int); insert into two values (2)")
_BROKEN = Migration(2, "second", "create table two (n int); select 1 / 0")
_KILLED = Migration(2, "second", "create table two (n int); select pg_terminate_backend(pg_backend_pid())")


@pytest.fixture
async def empty(empty_database_url: str) -> AsyncIterator[Database]:
    async with await Database.connect(empty_database_url) as database:
        yield database


async def fetch(database: Database, sql: str) -> object:
    async with database.connection() as connection:
        return await connection.fetchval(sql)


async def run_migrate(url: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", _MIGRATE, url, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode().split()


async def test_six_processes_together_apply_each_migration_once(empty_database_url: str, empty: Database) -> None:
    done = await asyncio.gather(*(run_migrate(empty_database_url) for _ in range(6)))
    assert sorted(itertools.chain(*done)) == sorted(migration.name for migration in MIGRATIONS)
    assert await fetch(empty, "select max(number) from schema_migrations") == SCHEMA_VERSION
    assert await migrate(empty) == []


@pytest.mark.parametrize(
    ("interrupted", "error"), [(_BROKEN, Exception), (_KILLED, Unavailable)], ids=["failed", "killed"]
)
async def test_an_interrupted_migration_leaves_a_usable_database(
    empty: Database, interrupted: Migration, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await migrate(empty, [_FIRST, interrupted])
    assert await fetch(empty, "select array_agg(name) from schema_migrations") == ["first"]
    assert await migrate(empty, [_FIRST, _SECOND]) == ["second"]
    assert await fetch(empty, "select n from two") == 2


async def test_new_migrations_follow_old_ones(empty: Database) -> None:
    assert await migrate(empty, [_FIRST]) == ["first"]
    assert await migrate(empty, [_FIRST, _SECOND]) == ["second"]


async def test_a_database_of_a_newer_release_is_refused(empty: Database) -> None:
    await migrate(empty, [_FIRST, _SECOND])
    with pytest.raises(SetupError, match="schema version 2, and this build knows only 1"):
        await migrate(empty, [_FIRST])


async def test_a_database_of_another_build_is_refused(empty: Database) -> None:
    await migrate(empty, [_FIRST])
    with pytest.raises(SetupError, match="belongs to another build"):
        await migrate(empty, [Migration(1, "begin", "select 1")])


def test_an_old_server_is_refused() -> None:
    check_server(150000)
    with pytest.raises(SetupError, match="The database is PostgreSQL 14; 15 or newer is needed"):
        check_server(140012)
