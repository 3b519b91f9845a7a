"""Every statement of every room is one that the migrated schema can run."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from tests.conftest import Server, database_at

import ebbtide
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import Queries, parse_queries

_SOURCE = Path(ebbtide.__file__).parent
FILES = sorted(
    path for path in _SOURCE.rglob("*.sql") if path.parent.name != "migrations" and path.name != "schema.sql"
)


async def find_faults(database: Database, queries: Queries) -> list[str]:
    faults = []
    for name, statement in queries.items():
        try:
            async with database.transaction() as connection:
                await connection.prepare(statement)
        except asyncpg.PostgresError as error:
            faults.append(f"{queries.source}: {name}: {error}")
    return faults


@pytest.fixture(scope="module")
async def database(server: Server, template: str) -> AsyncIterator[Database]:
    """One for all statements: preparing changes nothing."""
    async with server.database(template) as name, await Database.connect(database_at(server.url, name)) as database:
        yield database


@pytest.fixture(params=FILES, ids=[str(path.relative_to(_SOURCE)) for path in FILES])
def queries(request: pytest.FixtureRequest) -> Queries:
    return parse_queries(request.param.read_text(encoding="utf-8"), str(request.param.relative_to(_SOURCE)))


async def test_every_statement_prepares(database: Database, queries: Queries) -> None:
    assert await find_faults(database, queries) == []


async def test_a_statement_that_does_not_fit_is_found(database: Database) -> None:
    queries = parse_queries("-- name: a\n-- wrong\nselect no_such_column from batch_jobs", "wrong.sql")
    assert len(await find_faults(database, queries)) == 1
