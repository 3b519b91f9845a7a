"""The queries run before a roll-back: as the specification prints them, and as docs/upgrading.md does."""

from __future__ import annotations

import asyncio
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from tests.domain import NOON, World, insert_open

from ebbtide.batches import end_store, workers_store
from ebbtide.batches.model import BATCH_SCHEMA_VERSION
from ebbtide.cli import exits
from ebbtide.cli.app import run
from ebbtide.storage.migrate import MIGRATIONS
from ebbtide.storage.pool import Database, connect_alone

UPGRADING = Path(__file__).resolve().parents[3] / "docs/upgrading.md"

MESSAGES = """SELECT id, phase, status FROM batch_jobs
    WHERE target = 'messages' AND api_surface <> 'anthropic' AND phase <> 'sealed';"""
NOT_INLINE_CHAT = """SELECT api_surface, target, phase, status, count(*)
    FROM batch_jobs
    WHERE (api_surface, target) <> ('openai_inline', 'chat') AND phase <> 'sealed'
    GROUP BY 1, 2, 3, 4;"""
SESSIONS = """SELECT pid, client_addr, state, xact_start
    FROM pg_stat_activity
    WHERE datname = current_database()
      AND usename = '<the gateway database user>'
      AND pid <> pg_backend_pid();"""

SURFACES = ("openai_inline", "openai_file", "anthropic", "gemini")
TARGETS = ("chat", "embeddings", "responses", "messages", "gemini")
STATES = {  # how a batch stands: its phase, why it is closed, its status
    ("open", None): "in_progress",
    ("open", "cancelled"): "cancelling",
    ("sealing", None): "finalizing",
    ("sealed", None): "completed",
    ("sealed", "cancelled"): "cancelled",
}


async def make_every_kind(world: World) -> list[tuple[str, str, str, str]]:
    """A batch of each surface and target in each state: (surface, target, phase, status)."""
    kinds: list[tuple[str, str, str, str]] = []
    for surface, target, ((phase, closing), status) in itertools.product(SURFACES, TARGETS, STATES.items()):
        async with world.database.transaction() as conn:
            no = await insert_open(conn, world.owner, {}, api_surface=surface, target=target, id=f"batch_{len(kinds)}")
            await conn.execute(
                """update batch_jobs set phase = $2, closing = $3, in_progress_at = $4,
                       closing_at = case when $3::text is not null then $4::timestamptz end,
                       sealed_at = case $2 when 'sealed' then $4::timestamptz end,
                       results_expires_at = case $2 when 'sealed' then $4::timestamptz end where no = $1""",
                *(no, phase, closing, NOON),
            )
        kinds.append((surface, target, phase, status))
    return kinds


async def test_the_drain_queries_of_the_specification(world: World) -> None:
    kinds = await make_every_kind(world)
    assert {tuple(row) for row in await world.fetch(MESSAGES)} == {
        (f"batch_{n}", phase, status)
        for n, (surface, target, phase, status) in enumerate(kinds)
        if target == "messages" and surface != "anthropic" and phase != "sealed"
    }
    assert {tuple(row) for row in await world.fetch(NOT_INLINE_CHAT)} == {
        (*kind, 1) for kind in kinds if kind[:2] != ("openai_inline", "chat") and kind[2] != "sealed"
    }
    await world.fetch("update batch_jobs set phase = 'sealed', sealed_at = now(), results_expires_at = now()")
    assert await world.fetch(MESSAGES) == []
    assert await world.fetch(NOT_INLINE_CHAT) == []


async def test_batches_on_their_way_leave_the_drain_query_when_they_end(world: World) -> None:
    """Cancelled ones of the kind that the older release would run wrongly."""
    job = await world.many(3)
    await world.fetch("update batch_jobs set target = 'embeddings' where no = $1", job.no)
    assert [tuple(row) for row in await world.fetch(NOT_INLINE_CHAT)] == [
        ("openai_inline", "embeddings", "open", "validating", 1)
    ]
    async with world.database.transaction() as conn:
        await end_store.cancel_batch(conn, job.id, NOON)
    assert [tuple(row)[2:] for row in await world.fetch(NOT_INLINE_CHAT)] == [("open", "cancelling", 1)]
    await world.close()
    assert await world.fetch(NOT_INLINE_CHAT) == []


async def sessions(listen_url: str, sql: str, placeholder: str) -> list[Any]:
    own = await connect_alone(listen_url)
    try:
        return list(await own.fetch(sql.replace(placeholder, await own.fetchval("select current_user"))))
    finally:
        await own.close()


@pytest.mark.parametrize("where", ["specification", "docs"])
async def test_the_sessions_of_a_gateway_are_seen_until_they_end(listen_url: str, where: str) -> None:
    """A transaction that is still open is a row, and so is a connection that only waits."""
    sql, placeholder = (SESSIONS, "<the gateway database user>")
    if where == "docs":
        sql, placeholder = (block("FROM pg_stat_activity"), "<database user>")
    async with await Database.connect(listen_url) as gateway:
        async with gateway.transaction() as conn:
            await conn.execute("select 1")
            (row,) = await sessions(listen_url, sql, placeholder)
            assert row["state"] == "idle in transaction"
            assert row["xact_start"] is not None
        (row,) = await sessions(listen_url, sql, placeholder)
        assert (row["state"], row["xact_start"]) == ("idle", None)
    async with asyncio.timeout(10):
        while await sessions(listen_url, sql, placeholder):  # noqa: ASYNC110  looks at a database
            await asyncio.sleep(0.05)


# docs/upgrading.md


def blocks(kind: str) -> list[str]:
    """The code blocks of a kind, without the indent of the list they are in."""
    text = UPGRADING.read_text(encoding="utf-8")
    return re.findall(rf"^ *```{kind}\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)


def block(text: str) -> str:
    """The SQL block with `text` in it."""
    (found,) = [sql for sql in blocks("sql") if text in sql]
    return found


async def test_the_runbooks_drain_query_lists_what_an_older_release_cannot_run(world: World) -> None:
    kinds = await make_every_kind(world)
    await world.fetch("update batch_jobs set schema_version = 1 where no % 2 = 0")
    newer = {row["id"] for row in await world.fetch("select id from batch_jobs where schema_version > 1")}
    sql = block("FROM batch_jobs")
    for placeholder, value in {
        "<schema_version>": "1",
        "<surfaces>": "ARRAY['openai_inline', 'openai_file']",
        "<targets>": "ARRAY['chat', 'embeddings']",
    }.items():
        assert placeholder in sql
        sql = sql.replace(placeholder, value)
    assert {row["id"] for row in await world.fetch(sql)} == {
        f"batch_{n}"
        for n, (surface, target, phase, _) in enumerate(kinds)
        if phase != "sealed"
        and (
            f"batch_{n}" in newer
            or surface not in ("openai_inline", "openai_file")
            or target not in ("chat", "embeddings")
        )
    }


async def test_the_runbooks_other_queries(world: World) -> None:
    lives = await world.worker_no()
    await world.lapse(await world.worker_no())
    (row,) = await world.fetch(block("lease_until > now()"))
    assert (row["pid"], row["version"], row["schema_version"]) == (1, "0", BATCH_SCHEMA_VERSION)
    async with world.database.transaction() as conn:
        await workers_store.end_worker(conn, lives)
    (row,) = await world.fetch(block("SELECT DISTINCT version"))
    assert (row["version"], row["schema_version"]) == ("0", BATCH_SCHEMA_VERSION)
    history = [(row["number"], row["oldest_build"]) for row in await world.fetch(block("FROM schema_migrations"))]
    assert history == [(migration.number, migration.oldest_build) for migration in MIGRATIONS]
    assert len(blocks("sql")) == 5  # each is run by a test here


async def test_the_runbooks_commands(
    database_url: str, listen_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EBBTIDE_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBTIDE_DATABASE_LISTEN_URL", listen_url)
    monkeypatch.setenv("EBBTIDE_PORT", "0")
    commands = [line.split()[1:] for sh in blocks("sh") for line in sh.split("\n") if line.strip()]
    assert ["settings", "set", "BATCH_ENABLED", "false"] in commands
    for command in commands:
        assert await asyncio.to_thread(run, command) == exits.OK, command
    assert "Nothing was stored" not in capsys.readouterr().err
