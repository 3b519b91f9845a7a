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
_BESIDE_FIRST = "-- Builds that know schema version 1 or newer may run beside it."
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


async def test_older_builds_may_go_on_where_a_newer_one_only_added(empty: Database) -> None:
    """A build refuses to start when any step beyond its own leaves it behind."""
    added = Migration(2, "added", f"{_BESIDE_FIRST}\ncreate table two (n int)")
    dropped = Migration(3, "dropped", "drop table one")
    await migrate(empty, [_FIRST, added])
    assert await migrate(empty, [_FIRST]) == []
    await migrate(empty, [_FIRST, added, dropped])
    for mine in ([_FIRST], [_FIRST, added]):
        with pytest.raises(SetupError, match=f"schema version 3, and this build knows only {len(mine)}"):
            await migrate(empty, mine)


async def test_a_step_that_says_nothing_leaves_older_builds_behind() -> None:
    assert _SECOND.oldest_build == 2
    assert Migration(7, "more", "create table x (n int);\n" + _BESIDE_FIRST).oldest_build == 1
    assert Migration(7, "more", f"{_BESIDE_FIRST.removesuffix('.')}: they look at no x.").oldest_build == 1


@pytest.mark.parametrize("step", MIGRATIONS[1:], ids=lambda step: step.name)
def test_every_step_lets_an_older_build_run_beside_it(step: Migration) -> None:
    """So that processes are upgraded one after the other (docs/upgrading.md)."""
    assert step.oldest_build < step.number


async def test_a_history_that_was_begun_without_the_column(empty: Database) -> None:
    async with empty.transaction() as connection:
        await connection.execute(
            """create table schema_migrations (number integer primary key, name text not null,
                                               applied_at timestamptz not null);
               insert into schema_migrations values (1, 'first', now()); create table one (n int)"""
        )
    assert await migrate(empty, [_FIRST]) == []
    assert await migrate(empty, [_FIRST, _SECOND]) == ["second"]
    with pytest.raises(SetupError, match="knows only 1"):
        await migrate(empty, [_FIRST])


async def test_a_step_gives_way_to_whoever_holds_its_table(empty: Database) -> None:
    """Nobody waits behind it for longer than a moment, and it is done once the table is free."""
    await migrate(empty, [_FIRST])
    changes = Migration(2, "changes", "alter table one add column more int")
    async with empty.transaction() as holder:
        await holder.execute("select * from one")
        waiting = asyncio.create_task(migrate(empty, [_FIRST, changes]))
        blocked = "select count(*) from pg_locks where not granted and relation = 'one'::regclass"
        async with asyncio.timeout(10):
            while not await fetch(empty, blocked):  # noqa: ASYNC110  looks at a database
                await asyncio.sleep(0.01)
            assert await fetch(empty, "select count(*) from one") == 0
        assert not waiting.done()
    assert await waiting == ["changes"]


async def test_a_step_that_loses_a_deadlock_is_tried_again(empty: Database) -> None:
    await migrate(empty, [_FIRST, _SECOND])
    changes = Migration(3, "changes", "alter table one add column more int; alter table two add column more int")
    async with empty.transaction() as holder:
        await holder.execute("set local deadlock_timeout = '1min'")  # the other one finds it
        await holder.execute("lock table two in access share mode")
        waiting = asyncio.create_task(migrate(empty, [_FIRST, _SECOND, changes]))
        blocked = "select count(*) from pg_locks where not granted and relation = 'two'::regclass"
        async with asyncio.timeout(20):
            while not await fetch(empty, blocked):  # noqa: ASYNC110  looks at a database
                await asyncio.sleep(0.01)
            await holder.execute("lock table one in access share mode")
    assert await waiting == ["changes"]


async def test_a_database_of_another_build_is_refused(empty: Database) -> None:
    await migrate(empty, [_FIRST])
    with pytest.raises(SetupError, match="belongs to another build"):
        await migrate(empty, [Migration(1, "begin", "select 1")])


def test_an_old_server_is_refused() -> None:
    check_server(150000)
    with pytest.raises(SetupError, match="The database is PostgreSQL 14; 15 or newer is needed"):
        check_server(140012)
