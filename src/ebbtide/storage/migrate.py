"""Brings a database to this build's schema: numbered files of `migrations/`, each applied once in its own transaction.

However many processes start together, an advisory lock of the transaction lets one of them work and shows the others
what it did. A transaction lock, since a session lock would be lost or left behind in a pooler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from ebbtide.errors import SetupError
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

OLDEST_SERVER = 15
# A migration on a big database, or the wait for another process that runs one.
MIGRATION_TIMEOUT = 3600.0
_LOCK = 0x656262746964  # "ebbtid"
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_SQL = load_queries("ebbtide.storage", "migrate.sql")


@dataclass(frozen=True)
class Migration:
    """One step: its number, the name in its file name, its SQL (any number of statements)."""

    number: int
    name: str
    sql: str


def load_migrations() -> list[Migration]:
    """The shipped migrations in order; their numbers are 1, 2, 3 …"""
    found = []
    for entry in (files("ebbtide.storage") / "migrations").iterdir():
        if match := _FILE.fullmatch(entry.name):
            found.append(Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise SetupError("The migrations of this installation are incomplete; install it again")
    return found


MIGRATIONS = load_migrations()
SCHEMA_VERSION = len(MIGRATIONS)


async def migrate(database: Database, migrations: list[Migration] = MIGRATIONS) -> list[str]:
    """Apply what is missing and return the names applied by this call; at the newest schema that is none.

    Raises SetupError when the server is too old, or the database was made by a newer or another build.
    """
    async with database.transaction() as connection:
        check_server(await connection.fetchval(_SQL["server_version"]))
        known = await _applied(connection) if await _has_history(connection) else {}
    _check_history(known, migrations)
    done = []
    for migration in migrations:
        if migration.number not in known and await _apply(database, migration, migrations):
            done.append(migration.name)
    return done


async def _apply(database: Database, migration: Migration, migrations: list[Migration]) -> bool:
    """Apply one migration, unless another process did so while this one waited for the lock."""
    async with database.transaction() as connection:
        await connection.execute(_SQL["lock_migrations"], _LOCK, timeout=MIGRATION_TIMEOUT)
        await connection.execute(_SQL["create_history"])
        known = await _applied(connection)
        _check_history(known, migrations)
        if migration.number in known:
            return False
        await connection.execute(migration.sql, timeout=MIGRATION_TIMEOUT)
        await connection.execute(_SQL["record_migration"], migration.number, migration.name)
        return True


def check_server(version: int) -> None:
    """Raise SetupError when the server, by its number such as 150004 for 15.4, is too old."""
    if version < OLDEST_SERVER * 10000:
        raise SetupError(f"The database is PostgreSQL {version // 10000}; {OLDEST_SERVER} or newer is needed")


async def _has_history(connection: Connection) -> bool:
    return bool(await connection.fetchval(_SQL["has_history"]))


async def _applied(connection: Connection) -> dict[int, str]:
    return {row["number"]: row["name"] for row in await connection.fetch(_SQL["list_applied"])}


def _check_history(known: dict[int, str], migrations: list[Migration]) -> None:
    """Refuse a database that a newer build has changed, or that another program made."""
    newest = max(known, default=0)
    if newest > len(migrations):
        raise SetupError(
            f"The database has schema version {newest}, and this build knows only {len(migrations)}: "
            "it was changed by a newer release; run that one, or restore a backup from before it"
        )
    for migration in migrations:
        if known.get(migration.number, migration.name) != migration.name:
            raise SetupError(
                f"The database's migration {migration.number} is {known[migration.number]!r}, "
                f"and this build's is {migration.name!r}: the database belongs to another build"
            )
