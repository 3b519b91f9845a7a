"""The database of a command that works on it directly: brought to the newest schema, closed at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ebbtide.cli.output import tell
from ebbtide.config import Config, place
from ebbtide.errors import SetupError
from ebbtide.storage.cluster import data_version
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[Database]:
    """The database of `config`, migrated; none is made where there is none. Raises SetupError or Unavailable."""
    if config.database_url is None:
        _check_there(config.data_dir)
    async with reach_database(config) as database:
        if await migrate(database):
            tell(f"Brought the database to the newest schema: {place(config)}.")
        yield database


def _check_there(data_dir: Path) -> None:
    """What a command would change in an empty database made for it is not what was meant."""
    try:
        there = data_version(data_dir / "postgres" / "data") is not None
    except OSError as error:
        raise SetupError(f"The database in {data_dir} cannot be read: {error.strerror}") from error
    if not there:
        raise SetupError(
            f"There is no database in {data_dir} yet: `ebbtide serve` makes it, or `ebbtide migrate` beforehand. "
            "If there is one elsewhere, name its folder with --data-dir or EBBTIDE_DATA_DIR, or its server with "
            "--database-url or EBBTIDE_DATABASE_URL."
        )


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
