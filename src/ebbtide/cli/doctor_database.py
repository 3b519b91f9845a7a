"""The doctor's look at the database: whether one is there, new enough, how far its schema is, and who works on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import date
from typing import Final

import asyncpg

from ebbtide.cli.database import reach_database
from ebbtide.cli.findings import Finding, bad, ok, warn
from ebbtide.clock import SystemClock
from ebbtide.config import Config
from ebbtide.errors import EbbtideError, SetupError
from ebbtide.records.log_days import missing_days
from ebbtide.settings.snapshot import Settings, with_stored
from ebbtide.settings.store import list_stored
from ebbtide.storage.embedded import find_problems
from ebbtide.storage.migrate import OLDEST_SERVER, SCHEMA_VERSION, Applied, check_history, list_applied
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
        applied = await list_applied(conn)
        findings = [_server(version), _schema(applied)]
        if max(applied, default=0) >= SCHEMA_VERSION and findings[-1].level != "bad":
            stored = await list_stored(conn)
            findings += _settings({name: row.value for name, row in stored.items()})
            living = await conn.fetch(Q["living_workers"])
            findings += _workers(living)
            findings += _log_days(await missing_days(conn, SystemClock().now().date()), runs=bool(living))
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


def _schema(applied: Mapping[int, Applied]) -> Finding:
    newest = max(applied, default=0)
    if newest == 0:
        return ok("schema", "empty; the first start makes it")
    try:
        check_history(applied)
    except SetupError as error:
        return bad("schema", error.message, "Run the release that made it, or restore a backup from before it.")
    if newest > SCHEMA_VERSION:
        message = (
            f"version {newest} was made by a newer release; this one knows {SCHEMA_VERSION}, and may run beside it"
        )
        return warn("schema", message, "Finish the upgrade: restart every process as the newer release.")
    if newest < SCHEMA_VERSION:
        message = f"version {newest}, and this release has {SCHEMA_VERSION}"
        return warn("schema", message, "The next start migrates it, or `ebbtide migrate` beforehand.")
    return ok("schema", f"version {newest}, the newest")


def _settings(stored: Mapping[str, str]) -> Iterator[Finding]:
    """What is stored and has no effect."""
    for name, reason in with_stored(Settings(), stored)[1].items():
        yield warn("stored settings", f"{reason}; it has no effect", f"`ebbtide settings reset {name}` removes it.")


def _log_days(missing: Sequence[date], *, runs: bool) -> Iterator[Finding]:
    """Whether the request log has its partitions: a process that runs makes them a week ahead."""
    if not missing:
        yield ok("request log", "has a partition for today and each day ahead")
        return
    days = ", ".join(day.isoformat() for day in missing)
    if runs:
        yield warn(
            "request log",
            f"no partition for {days}: rows of these days stay in the default one",
            "The log of a running gateway tells what keeps it from making them (duty `request log`).",
        )
    else:
        yield ok("request log", f"no partition for {days}; the next start makes them")


def _workers(living: Sequence[asyncpg.Record]) -> Iterator[Finding]:
    """Every worker that lives, and whether they are of several versions."""
    for row in living:
        can_run = f"batches up to schema version {row['schema_version']}"
        yield ok("worker", f"{row['host']} pid {row['pid']}: version {row['version']}, runs {can_run}")
    if not living:
        yield ok("worker", "none runs at the moment")
    if len({(row["version"], row["schema_version"]) for row in living}) > 1:
        yield warn(
            "workers",
            "they are of several versions; each leaves alone the batches that it does not know",
            "Finish the upgrade, or the way back: docs/upgrading.md tells the steps.",
        )
