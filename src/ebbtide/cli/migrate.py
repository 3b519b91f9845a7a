"""`ebbtide migrate`: bring the database to the newest schema and say so."""

from __future__ import annotations

from ebbtide.cli.bootflags import DatabaseFlags, read_config
from ebbtide.cli.database import reach_database
from ebbtide.cli.output import tell
from ebbtide.config import place
from ebbtide.storage.migrate import SCHEMA_VERSION
from ebbtide.storage.migrate import migrate as apply_migrations


async def migrate(flags: DatabaseFlags = DatabaseFlags()) -> None:  # noqa: B008  frozen
    """Bring the database to the newest schema. `serve` does so too; this is for doing it beforehand."""
    config = read_config(flags)
    tell(f"The database: {place(config)}")
    async with reach_database(config) as database:
        for name in await apply_migrations(database):
            print(f"applied {name}")
    print(f"The database is at schema version {SCHEMA_VERSION}.")
