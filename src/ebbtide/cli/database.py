"""The database of a command that works on it directly: brought to the newest schema, closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ebbtide.config import Config
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[Database]:
    """The database of `config`, migrated. Raises SetupError or Unavailable."""
    async with reach_database(config) as database:
        await migrate(database)
        yield database


@asynccontextmanager
async def reach_database(config: Config) -> AsyncIterator[Database]:
    """The same as it is; without a URL the embedded server is started, unless it runs already."""
    async with AsyncExitStack() as stack:
        url = config.database_url
        if url is None:
            url = (await stack.enter_async_context(EmbeddedServer(config.data_dir))).url
        database = await Database.connect(url, listen_url=config.database_listen_url, max_size=2)
        stack.push_async_callback(database.close)
        yield database
