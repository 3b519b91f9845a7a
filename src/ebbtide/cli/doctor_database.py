"""The doctor's look at the database: whether one is there, new enough, and how far its schema is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from ebbtide.cli.database import reach_database
from ebbtide.cli.findings import Finding, bad, ok, warn
from ebbtide.config import Config
from ebbtide.errors import EbbtideError
from ebbtide.settings.snapshot import Settings, with_stored
from ebbtide.settings.store import list_stored
from ebbtide.storage.embedded import find_problems
from ebbtide.storage.migrate import OLDEST_SERVER, SCHEMA_VERSION
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

Q: Final = load_queries("ebbtide.cli", "doctor.sql")


async def check_database(config: Config) -> AsyncIterator[Finding]:
    """The embedded server's folder and programs, or the server given, then what is in it."""
    if config.database_url is None:
        problems = find_problems(config.data_dir)
        for problem in problems:
            yield bad("data folder", problem, "Make it so, choose another --data-dir, or name a server.")
        if problems:
            return
        yield ok("data folder", f"{config.data_dir} can hold the embedded PostgreSQL")
        if not (config.data_dir / "postgres" / "data").exists():
            yield ok("database", "none yet; the first start makes it")
            return
    async for finding in _look_inside(config):
        yield finding


async def _look_inside(config: Config) -> AsyncIterator[Finding]:
    try:
        async with reach_database(config) as database:
            for finding in await _examine(database, config):
                yield finding
    except EbbtideError as error:
        yield bad("database", error.message, "See that the server runs, and that URL, name and password are right.")


async def _examine(database: Database, config: Config) -> list[Finding]:
    async with database.connection() as conn:
        version = await conn.fetchval(Q["server_version"])
        applied = await conn.fetchval(Q["newest_migration"]) if await conn.fetchval(Q["has_history"]) else 0
        stored = await list_stored(conn) if applied == SCHEMA_VERSION else {}
    findings = [_server(version), _schema(applied), *_settings({name: row.value for name, row in stored.items()})]
    if database.pooled and config.database_listen_url is None:
        findings.append(
            warn(
                "pooler",
                "the database URL leads through a pooler, where notifications do not arrive; work is found by polling",
                "Name a direct URL with --database-listen-url.",
            )
        )
    return findings


def _server(version: int) -> Finding:
    name = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    if version < OLDEST_SERVER * 10_000:
        return bad("database", f"{name} is too old", f"Use PostgreSQL {OLDEST_SERVER} or newer.")
    return ok("database", f"{name} answers")


def _schema(applied: int) -> Finding:
    if applied == 0:
        return ok("schema", "empty; the first start makes it")
    if applied > SCHEMA_VERSION:
        message = f"version {applied} was made by a newer release; this one knows {SCHEMA_VERSION}"
        return bad("schema", message, "Run that release, or restore a backup from before it.")
    if applied < SCHEMA_VERSION:
        message = f"version {applied}, and this release has {SCHEMA_VERSION}"
        return warn("schema", message, "The next start migrates it, or `ebbtide migrate` beforehand.")
    return ok("schema", f"version {applied}, the newest")


def _settings(stored: Mapping[str, str]) -> Iterator[Finding]:
    """What is stored and has no effect."""
    for name, reason in with_stored(Settings(), stored)[1].items():
        yield warn("stored settings", f"{reason} It has no effect.", f"`ebbtide settings reset {name}` removes it.")
