"""Shared fixtures: a real PostgreSQL for the session, and a fresh migrated database for each test that asks for one.

The server is an embedded one, or the one that EBBTIDE_TEST_DATABASE_URL names; where that leads through a pooler,
EBBTIDE_TEST_ADMIN_URL is the direct way for making databases and EBBTIDE_TEST_LISTEN_URL for LISTEN.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import settings

from ebbtide.clock import SystemClock
from ebbtide.records.log_days import add_days
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database

_WORKER = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
_NUMBERS = itertools.count(1)

# An example may take as long as it likes: how fast this machine is at the moment is no property.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@dataclass(frozen=True)
class Server:
    """How tests reach PostgreSQL: as the gateway does, directly for administration, directly for LISTEN."""

    url: str
    admin_url: str
    listen_url: str

    @asynccontextmanager
    async def database(self, template: str) -> AsyncIterator[str]:
        """A copy of the database `template` for the block: its name."""
        name = f"ebb_{_WORKER}_{next(_NUMBERS)}"
        connection = await asyncpg.connect(self.admin_url)
        try:
            await connection.execute(f"create database {name} template {template} strategy file_copy")
            yield name
            await connection.execute(f"drop database {name} with (force)")
        finally:
            await connection.close()


def database_at(url: str, name: str) -> str:
    """`url` with another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder for an embedded server: its path is short, and the user that root drops to may reach it."""
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder) / "data"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The PostgreSQL of this test session."""
    if url := os.environ.get("EBBTIDE_TEST_DATABASE_URL"):
        admin_url = os.environ.get("EBBTIDE_TEST_ADMIN_URL", url)
        yield Server(url, admin_url, os.environ.get("EBBTIDE_TEST_LISTEN_URL", admin_url))
        return
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        embedded = EmbeddedServer(Path(folder) / "data", fsync=False)
        embedded.start()
        yield Server(embedded.url, embedded.url, embedded.url)
        embedded.leave()


@pytest.fixture(scope="session")
def server_url(server: Server) -> str:
    """The server as the gateway reaches it, with its first database."""
    return server.url


@pytest.fixture(scope="session")
async def migrated(server: Server) -> AsyncIterator[str]:
    """The name of a migrated database to copy."""
    async with server.database("template0") as name:
        async with await Database.connect(database_at(server.admin_url, name)) as database:
            await migrate(database)
        yield name


@pytest.fixture(scope="session")
async def template(server: Server, migrated: str) -> AsyncIterator[str]:
    """The name of the database that tests copy: migrated, with the days of the request log that a gateway makes first.

    A module that is about those days, or about the bare schema, has a `template` of its own: `migrated`.
    """
    async with server.database(migrated) as name:
        async with await Database.connect(database_at(server.admin_url, name)) as database:
            await add_days(database, SystemClock().now())
        yield name


@pytest.fixture
async def empty_database_url(server: Server) -> AsyncIterator[str]:
    """A fresh database without any tables."""
    async with server.database("template0") as name:
        yield database_at(server.url, name)


@pytest.fixture
async def database_url(server: Server, template: str) -> AsyncIterator[str]:
    """A fresh migrated database, for tests that start processes; see also `listen_url`."""
    async with server.database(template) as name:
        yield database_at(server.url, name)


@pytest.fixture
def listen_url(server: Server, database_url: str) -> str:
    """The direct way to the database of `database_url`."""
    return database_at(server.listen_url, urlsplit(database_url).path.lstrip("/"))


@pytest.fixture
async def database(database_url: str, listen_url: str) -> AsyncIterator[Database]:
    """A fresh migrated database of its own for each test."""
    async with await Database.connect(database_url, listen_url=listen_url) as database:
        yield database


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end that a part was not tested for want of a browser, which a number of skips does not tell."""
    reasons = {str(report.longrepr[-1]) for report in terminalreporter.stats.get("skipped", ()) if report.longrepr}
    for reason in sorted(one for one in reasons if "Chromium" in one):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True)
