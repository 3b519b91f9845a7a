"""The database of a process: a server given by its URL, or the embedded one of a data folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.pool import Database


@asynccontextmanager
async def reach_database(
    url: str | None, data_dir: Path, *, listen_url: str | None = None, max_size: int = 10
) -> AsyncIterator[Database]:
    """The database at `url`; without one the embedded server in `data_dir`, started unless it runs already.

    Closed at the end. Its schema is as it is. Raises SetupError or Unavailable.
    """
    async with AsyncExitStack() as stack:
        if url is None:
            url = (await stack.enter_async_context(EmbeddedServer(data_dir))).url
        yield await stack.enter_async_context(await Database.connect(url, listen_url=listen_url, max_size=max_size))
