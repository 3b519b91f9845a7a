"""The database of a command that works on it directly: brought to the newest schema, closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from ebbtide.config import Config
from ebbtide.storage import reach
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[Database]:
    """The database of `config`, migrated. Raises SetupError or Unavailable."""
    async with reach_database(config) as database:
        await migrate(database)
        yield database


def reach_database(config: Config) -> AbstractAsyncContextManager[Database]:
    """The same as it is."""
    return reach.reach_database(config.database_url, config.data_dir, listen_url=config.database_listen_url, max_size=2)
