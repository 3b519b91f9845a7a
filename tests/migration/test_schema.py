"""schema.sql, which is for reading, and the migrations, which are what runs, give the same database."""

from collections.abc import AsyncIterator
from importlib.resources import files

import pytest

from ebbtide.storage.pool import Database

_CATALOG = {
    "relations": """
        select relname, relkind, relpersistence, reloptions
        from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'S', 'f')""",
    "columns": """
        select relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
               attstorage, attcompression, pg_get_expr(adbin, adrelid)
        from pg_attribute join pg_class c on c.oid = attrelid
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm') and attnum > 0
          and not attisdropped""",
    "constraints": """
        select conrelid::regclass::text, contype, pg_get_constraintdef(oid), convalidated
        from pg_constraint where connamespace = 'public'::regnamespace""",
    "indexes": "select indexdef from pg_indexes where schemaname = 'public'",
    "partitions": "select inhrelid::regclass::text, inhparent::regclass::text from pg_inherits",
    "functions": "select pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace",
    "triggers": "select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    "types": """
        select typname, typtype from pg_type
        where typnamespace = 'public'::regnamespace and typtype in ('e', 'd', 'r')""",
}


@pytest.fixture(scope="session")
def template(migrated: str) -> str:
    """No day has been made yet."""
    return migrated


_HISTORY = "schema_migrations"  # how a database came to be is not a part of what it is


async def describe(database: Database) -> dict[str, list[str]]:
    """Every catalog row as text, sorted, so that a difference shows as the rows that differ."""
    async with database.connection() as connection:
        rows = {part: await connection.fetch(sql) for part, sql in _CATALOG.items()}
    lines = {part: sorted(str(tuple(row.values())) for row in found) for part, found in rows.items()}
    return {part: [line for line in found if _HISTORY not in line] for part, found in lines.items()}


@pytest.fixture
async def read_schema(empty_database_url: str) -> AsyncIterator[Database]:
    """A database made of schema.sql."""
    async with await Database.connect(empty_database_url) as database:
        async with database.transaction() as connection:
            await connection.execute((files("ebbtide.storage") / "schema.sql").read_text(encoding="utf-8"))
        yield database


async def test_schema_and_migrations_agree(read_schema: Database, database: Database) -> None:
    one, other = await describe(read_schema), await describe(database)
    for part in _CATALOG:
        assert one[part] == other[part], part


async def test_the_comparison_sees_a_difference(read_schema: Database, database: Database) -> None:
    async with read_schema.transaction() as connection:
        await connection.execute("alter table batch_items set (fillfactor = 71)")
        await connection.execute("alter table batch_items add check (attempts < 1000000)")
    one, other = await describe(read_schema), await describe(database)
    assert {part for part in _CATALOG if one[part] != other[part]} == {"relations", "constraints"}
