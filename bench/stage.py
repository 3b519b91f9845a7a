"""What a bench plays on: an embedded PostgreSQL in a temporary folder, an account, gateways and workers as processes.

Everything is as a user would run it, except that nothing is kept.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec
from tests.people import create_account, create_key

from bench.bodies import MODEL
from bench.processes import Process, running
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches.intake import Intake, create_batch
from ebbtide.batches.model import Job
from ebbtide.catalog.source import FileSource
from ebbtide.clock import SystemClock
from ebbtide.dialects.openai.requests import CreateBatch
from ebbtide.dispatch.translation import check_carried
from ebbtide.settings.snapshot import Settings, load_settings
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database

# Role caps off, and no limit on what one account may have in work: the engine is measured, not its limits.
SETTINGS: dict[str, str] = {
    "BATCH_ROLE_CONCURRENCY_INTERNAL": "0",
    "BATCH_MAX_REQUESTS": "1000000",
    "BATCH_MAX_ACTIVE_PER_USER": "100000",
    "BATCH_MAX_QUEUED_REQUESTS_PER_USER": "100000000",
    "BATCH_FILES_MAX_TOTAL_MB_PER_USER": "1000000",
    "BATCH_FILE_UPLOADS_PER_HOUR": "1000000",
}
PRICES = {"input": 0.05, "output": 0.08, "cached_input": 0.01}


@dataclass(frozen=True)
class Stage:
    """A migrated database, the folder for a bench's own files, and an account that may use batches."""

    database: Database
    folder: Path
    principal: Principal
    key: str

    def models(self, upstream_url: str | None = None) -> Path:
        """A models file with one chat model, at that upstream or answered by the built-in stand-in."""
        route: dict[str, object] = {"id": "bench", "kind": "standin", "model": MODEL}
        if upstream_url is not None:
            route |= {"kind": "openai", "base_url": upstream_url + "/v1"}
        path = self.folder / "models.yaml"
        model = {"id": MODEL, "type": "chat", "pricing": PRICES, "routes": [route]}
        path.write_bytes(msgspec.json.encode({"models": [model]}))
        return path

    def settings(self, **changes: object) -> Settings:
        return load_settings(self._environ(changes))

    @asynccontextmanager
    async def gateway(self, role: str, models: Path, **settings: object) -> AsyncIterator[Gateway]:
        """A gateway process that is up, and tells only warnings. `settings` go on top of SETTINGS."""
        environ = self._environ(settings) | {"EBBTIDE_LOG_LEVEL": "warning"}
        async with self._serving(role, models, environ) as gateway:
            yield gateway

    @asynccontextmanager
    async def logging_gateway(self, role: str, models: Path, **settings: object) -> AsyncIterator[Gateway]:
        """The same with its whole log, written to where nobody reads it."""
        async with self._serving(role, models, self._environ(settings), quiet=True) as gateway:
            yield gateway

    @asynccontextmanager
    async def _serving(
        self, role: str, models: Path, environ: dict[str, str], *, quiet: bool = False
    ) -> AsyncIterator[Gateway]:
        own = {"EBBTIDE_DATABASE_URL": self.database.url, "EBBTIDE_MODELS": str(models), "EBBTIDE_PORT": "0"}
        async with running(["-m", "ebbtide", "serve", "--role", role], environ | own, quiet=quiet) as process:
            yield Gateway(process, process.said.rpartition(" ")[2])

    async def intake(self, models: Path, **settings: object) -> Intake:
        source = FileSource(models, os.environ)
        await source.start()
        return Intake(self.database, source.current, self.settings(**settings), SystemClock(), check_carried)

    async def submit(self, intake: Intake, lines: list[bytes]) -> Job:
        """A direct batch with those requests, stored and waiting."""
        create = CreateBatch(requests=[msgspec.Raw(line) for line in lines])
        return await create_batch(intake, self.principal, create)

    async def reached(self, batch_id: str, phase: str) -> None:
        """Wait until the batch is in that phase."""
        while await self._phase(batch_id) != phase:  # noqa: ASYNC110  the database is asked as a client would
            await asyncio.sleep(0.02)

    async def _phase(self, batch_id: str) -> str:
        async with self.database.connection() as conn:
            return str(await conn.fetchval("select phase from batch_jobs where id = $1", batch_id))

    @staticmethod
    def _environ(changes: Mapping[str, object]) -> dict[str, str]:
        return SETTINGS | {name.upper(): str(value) for name, value in changes.items()}


@dataclass(frozen=True)
class Gateway:
    """A gateway process and where it answers (a worker answers nowhere)."""

    process: Process
    url: str


@asynccontextmanager
async def stage(*, fsync: bool = True) -> AsyncIterator[Stage]:
    """A new embedded server with a migrated database, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="ebb-bench-", dir="/tmp") as name:
        folder = _passable(name)
        async with (
            EmbeddedServer(folder / "data", fsync=fsync) as server,
            await Database.connect(server.url) as database,
        ):
            await migrate(database)
            yield await _new_stage(database, folder)


@asynccontextmanager
async def stage_beside(other: Stage) -> AsyncIterator[Stage]:
    """A second migrated database on the same server."""
    async with other.database.connection() as conn:
        await conn.execute("create database beside template template0")
    url = urlunsplit(urlsplit(other.database.url)._replace(path="/beside"))
    async with await Database.connect(url) as database:
        await migrate(database)
        yield await _new_stage(database, other.folder)


def _passable(name: str) -> Path:
    folder = Path(name)
    folder.chmod(0o711)  # root's database runs as another user, who has to pass
    return folder


async def _new_stage(database: Database, folder: Path) -> Stage:
    now = SystemClock().now()
    account = await create_account(database, "bench", Role.INTERNAL, now)
    key, secret = await create_key(database, account.id, now=now)
    principal = Principal(account_id=account.id, key_id=key.id, role=account.role)
    return Stage(database, folder, principal, secret)
