"""Brings a database to this build's schema: numbered files of `migrations/`, each applied once in its own transaction.

However many processes start together, an advisory lock of the transaction lets one of them work and shows the others
what it did. A transaction lock, since a session lock would be lost or left behind in a pooler. Processes of an older
release work on meanwhile: a step that cannot get its locks at once steps back for them, and its record says which
builds may go on beside it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from ebbtide.errors import SetupError, Unavailable
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

OLDEST_SERVER = 15
# A migration on a big database, or the wait for another process that runs one.
MIGRATION_TIMEOUT = 3600.0
_LOCK = 0x656262746964  # "ebbtid"
_LOCK_SECONDS = 2.0  # how long a step may keep others waiting behind it for a table
_LOCK_PAUSE = 0.5
_LOCK_TRIES = 240
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_BESIDE = re.compile(r"^-- Builds that know schema version (\d+) or newer may run beside it[.:]", re.MULTILINE)
_SQL = load_queries("ebbtide.storage", "migrate.sql")


@dataclass(frozen=True)
class Migration:
    """One step: its number, the name in its file name, its SQL (any number of statements)."""

    number: int
    name: str
    sql: str

    @property
    def oldest_build(self) -> int:
        """The schema version that a build has to know to work once the step is applied: its own, unless the SQL
        says in a line that older ones do.
        """
        beside = _BESIDE.search(self.sql)
        return int(beside[1]) if beside else self.number


@dataclass(frozen=True)
class Applied:
    """A step that was applied to a database. `oldest_build` is None where the build that did it told nothing."""

    name: str
    oldest_build: int | None


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

    Raises SetupError when the server is too old, or the database was made by another build or by a newer one beside
    which this one cannot work.
    """
    async with database.transaction() as connection:
        check_server(await connection.fetchval(_SQL["server_version"]))
        known = await list_applied(connection)
    check_history(known, migrations)
    done = []
    for migration in migrations:
        if migration.number not in known and await _apply(database, migration, migrations):
            done.append(migration.name)
    return done


async def list_applied(connection: Connection) -> dict[int, Applied]:
    """What was applied to the database so far, by number; nothing to an empty one."""
    if not await connection.fetchval(_SQL["has_history"]):
        return {}
    rows = await connection.fetch(_SQL["list_applied"])
    return {row["number"]: Applied(row["name"], row["oldest_build"]) for row in rows}


def check_server(version: int) -> None:
    """Raise SetupError when the server, by its number such as 150004 for 15.4, is too old."""
    if version < OLDEST_SERVER * 10000:
        raise SetupError(f"The database is PostgreSQL {version // 10000}; {OLDEST_SERVER} or newer is needed")


def check_history(known: Mapping[int, Applied], migrations: list[Migration] = MIGRATIONS) -> None:
    """Raise SetupError when another program made the database, or a newer build that leaves this one behind."""
    newest, mine = max(known, default=0), len(migrations)
    if any(number > mine and (it.oldest_build is None or it.oldest_build > mine) for number, it in known.items()):
        raise SetupError(
            f"The database has schema version {newest}, and this build knows only {mine}: "
            "it was changed by a newer release; run that one, or restore a backup from before it"
        )
    for migration in migrations:
        applied = known.get(migration.number)
        if applied is not None and applied.name != migration.name:
            raise SetupError(
                f"The database's migration {migration.number} is {applied.name!r}, "
                f"and this build's is {migration.name!r}: the database belongs to another build"
            )


async def _apply(database: Database, migration: Migration, migrations: list[Migration]) -> bool:
    """Apply one migration, unless another process did so while this one waited for the lock."""
    for _ in range(_LOCK_TRIES - 1):
        try:
            return await _try_to_apply(database, migration, migrations)
        except (asyncpg.LockNotAvailableError, Unavailable) as error:
            if not _is_in_the_way(error):
                raise
        await asyncio.sleep(_LOCK_PAUSE)
    return await _try_to_apply(database, migration, migrations)


async def _try_to_apply(database: Database, migration: Migration, migrations: list[Migration]) -> bool:
    async with database.transaction() as connection:
        await connection.execute(_SQL["lock_migrations"], _LOCK, timeout=MIGRATION_TIMEOUT)
        await connection.execute(_SQL["limit_waiting"], f"{_LOCK_SECONDS:g}s")
        await connection.execute(_SQL["create_history"])
        await connection.execute(_SQL["extend_history"])
        known = await list_applied(connection)
        check_history(known, migrations)
        if migration.number in known:
            return False
        await connection.execute(migration.sql, timeout=MIGRATION_TIMEOUT)
        await connection.execute(_SQL["record_migration"], migration.number, migration.name, migration.oldest_build)
        return True


def _is_in_the_way(error: Exception) -> bool:
    """Whether all that went wrong is that somebody else holds a lock."""
    return isinstance(error, asyncpg.LockNotAvailableError) or isinstance(
        error.__cause__, asyncpg.DeadlockDetectedError
    )
