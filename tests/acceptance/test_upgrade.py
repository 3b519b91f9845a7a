"""An upgrade process by process: this build beside one of an earlier commit, on one database, and nothing runs twice.

The earlier build is the newest commit of this repository whose batches have a lower schema version and whose database
has fewer migrations. It is run from its own sources with the packages of this environment.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest
from tests.domain import books
from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import request_line, until
from tests.processes import SHORT_LEASE, GatewayProcess, Processes

from ebbtide.batches.model import BATCH_SCHEMA_VERSION
from ebbtide.storage.migrate import SCHEMA_VERSION
from ebbtide.storage.pool import Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).resolve().parents[2]
_MODEL: Final = "src/ebbtide/batches/model.py"
_MIGRATIONS: Final = "src/ebbtide/storage/migrations"
_ENVIRON: Final = {**SHORT_LEASE, "BATCH_MODEL_CONCURRENCY": "4"}


# The earlier build


def git(*arguments: str, given: bytes = b"") -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, input=given, stdout=subprocess.PIPE, check=True).stdout


def objects(names: list[str]) -> Iterator[bytes]:
    """The contents of these objects of the repository; nothing for those that it does not have."""
    answer = io.BytesIO(git("cat-file", "--batch", given="".join(f"{name}\n" for name in names).encode()))
    while head := answer.readline():
        size = head.split()[-1]
        yield b"" if size == b"missing" else answer.read(int(size) + 1)[:-1]


def find_earlier() -> str | None:
    """The newest commit of a build that knows less of batches and of the database."""
    commits = git("rev-list", "HEAD").decode().split()
    names = [f"{commit}:{path}" for commit in commits for path in (_MODEL, _MIGRATIONS)]
    contents = objects(names)
    for commit, model, migrations in zip(commits, contents, contents, strict=True):
        version = re.search(rb"^BATCH_SCHEMA_VERSION: Final = (\d+)", model, re.MULTILINE)
        count = len(re.findall(rb"\d{4}_[a-z0-9_]+\.sql", migrations))
        if version and int(version[1]) < BATCH_SCHEMA_VERSION and 0 < count < SCHEMA_VERSION:
            return commit
    return None


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the earlier build."""
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no git clone: there is no earlier build to upgrade from")
    commit = find_earlier()
    if commit is None and git("rev-parse", "--is-shallow-repository").strip() == b"true":
        pytest.skip("a shallow clone: its history does not reach back to an earlier build")
    assert commit is not None
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


# Both on one database


@dataclass
class Deployment:
    """One database, on which processes of both builds work."""

    url: str
    database: Database
    processes: Processes
    upstream: FakeUpstream
    earlier: Path

    async def start_old(self) -> GatewayProcess:
        return await self.processes.start(PYTHONPATH=str(self.earlier))

    async def start_new(self, *flags: str) -> GatewayProcess:
        return await self.processes.start(*flags, PYTHONPATH=str(ROOT / "src"))

    async def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        async with self.database.connection() as conn:
            return [dict(row) for row in await conn.fetch(sql, *values)]

    async def state_of(self, batch_ids: list[str]) -> list[list[dict[str, Any]]]:
        """Every row that belongs to these batches."""
        of_batches = "where batch_no in (select no from batch_jobs where id = any($1))"
        return [
            await self.rows("select * from batch_jobs where id = any($1) order by no", batch_ids),
            await self.rows(f"select * from batch_items {of_batches} order by batch_no, id", batch_ids),
            await self.rows(f"select * from batch_queues {of_batches} order by batch_no, model", batch_ids),
            await self.rows(f"select * from batch_attempts {of_batches} order by batch_no, item_id", batch_ids),
            await self.rows("select * from batch_files where batch_id = any($1) order by id", batch_ids),
        ]


@pytest.fixture
async def deployment(
    earlier: Path, empty_database_url: str, upstream: FakeUpstream, models: Path, tmp_path: Path
) -> AsyncIterator[Deployment]:
    environ = {"EBBTIDE_DATABASE_URL": empty_database_url, **_ENVIRON}
    async with (
        Processes(tmp_path, models, **environ) as processes,
        await Database.connect(empty_database_url) as database,
    ):
        yield Deployment(empty_database_url, database, processes, upstream, earlier)


def lines(name: str, count: int) -> list[dict[str, Any]]:
    return [request_line(f"{name}-{n}", text=f"{name}-{n}") for n in range(count)]


async def from_file(gateway: GatewayProcess, requests: list[dict[str, Any]]) -> str:
    form = aiohttp.FormData({"purpose": "batch"})
    content = b"".join(msgspec.json.encode(line) + b"\n" for line in requests)
    form.add_field("file", io.BytesIO(content), filename="in.jsonl")
    file = (await gateway.call("POST", "/v1/files", data=form)).json
    create = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answer = await gateway.call("POST", "/v1/batches", json=create)
    assert answer.status == 200, answer.body
    return str(answer.json["id"])


async def end_window(deployment: Deployment, batch_id: str) -> None:
    async with deployment.database.transaction() as conn:
        await conn.execute("update batch_jobs set expires_at = now() where id = $1", batch_id)


async def make_all_kinds(deployment: Deployment, gateway: GatewayProcess, name: str) -> dict[str, str]:
    """Batches that ask for whatever a worker does to one, by id, with what should become of each."""
    kinds = {
        await gateway.create(lines(f"{name}-direct", 3)): "completed",
        await from_file(gateway, lines(f"{name}-file", 3)): "completed",
    }
    late = await gateway.create(lines(f"{name}-slow-late", 40))
    async with deployment.database.transaction() as conn:
        await conn.execute("update batch_jobs set expires_at = now() where id = $1", late)
    cancelled = await gateway.create(lines(f"{name}-slow-cancelled", 40))
    assert (await gateway.call("POST", f"/v1/batches/{cancelled}/cancel")).status == 200
    return kinds | {late: "expired", cancelled: "cancelled"}


async def all_ended(gateway: GatewayProcess, kinds: dict[str, str]) -> None:
    assert {batch_id: (await gateway.ended(batch_id))["status"] for batch_id in kinds} == kinds


async def make_sealing(deployment: Deployment, old: GatewayProcess) -> tuple[str, bytes]:
    """A batch of the newer version whose result files are still to be written, and what should be in its output."""
    batch_id = await from_file(old, lines("sealing", 3))
    output = await output_of(old, batch_id)
    async with deployment.database.transaction() as conn:
        await conn.execute("delete from batch_files where batch_id = $1", batch_id)
        await conn.execute(
            """update batch_jobs set phase = 'sealing', sealed_at = null, results_expires_at = null,
                   output_id = null, error_id = null, schema_version = $2 where id = $1""",
            batch_id,
            BATCH_SCHEMA_VERSION,
        )
    return batch_id, output


async def output_of(gateway: GatewayProcess, batch_id: str) -> bytes:
    file_id = (await gateway.ended(batch_id))["output_file_id"]
    answer = await gateway.call("GET", f"/v1/files/{file_id}/content")
    assert answer.status == 200
    return answer.body


async def attempts_by_schema_version(deployment: Deployment, batch_ids: list[str]) -> Counter[int]:
    """How many attempts at these batches were made by workers of which version."""
    rows = await deployment.rows(
        """select w.schema_version from batch_attempts a join batch_jobs j on j.no = a.batch_no
           join workers w on w.no = a.worker_no where j.id = any($1)""",
        batch_ids,
    )
    return Counter(row["schema_version"] for row in rows)


def slow(received: Received) -> Behaviour | None:
    return Behaviour(latency=0.15) if "slow" in received.text else None


async def test_this_build_beside_an_earlier_one(deployment: Deployment) -> None:
    deployment.upstream.decide = slow
    old = await deployment.start_old()
    before = await old.create(lines("before-slow", 60))

    async def has_begun() -> bool:
        return deployment.upstream.count > 0

    await until(has_begun)
    # The database is migrated while the old process works on it. Of the new build only the HTTP server runs at first.
    new = await deployment.start_new("--role", "api")
    assert await deployment.rows("select max(number) from schema_migrations") == [{"max": SCHEMA_VERSION}]
    newer = await make_all_kinds(deployment, new, "newer")
    sealing, output = await make_sealing(deployment, old)
    untouched = await deployment.state_of([*newer, sealing])
    assert {row["schema_version"] for row in untouched[0]} == {BATCH_SCHEMA_VERSION}

    # The old worker does everything to its own batches, and nothing to the newer ones, which its API shows.
    older = {before: "completed"} | await make_all_kinds(deployment, old, "older")
    await all_ended(old, older)
    assert await deployment.state_of([*newer, sealing]) == untouched
    assert (await old.batch(sealing))["status"] == "finalizing"

    # A worker of the new build joins: those end too, and it alone runs them.
    joined = await deployment.start_new()
    await both_are_told(deployment)
    await all_ended(old, newer)
    assert await output_of(joined, sealing) == output
    assert (await attempts_by_schema_version(deployment, list(newer))).keys() == {BATCH_SCHEMA_VERSION}

    # Both work until the old one is stopped in the middle.
    shared = await old.create(lines("shared-slow", 600))
    mine = await joined.create(lines("mine-slow", 40))

    async def both_run() -> bool:
        return (await attempts_by_schema_version(deployment, [shared])).keys() == {1, BATCH_SCHEMA_VERSION}

    await until(both_run, within=60)
    assert await old.stop() == 0
    assert (await joined.batch(shared))["status"] == "in_progress"
    deployment.upstream.decide = None
    await all_ended(joined, {shared: "completed", mine: "completed"})
    assert (await attempts_by_schema_version(deployment, [mine])).keys() == {BATCH_SCHEMA_VERSION}
    await everything_ended_once(deployment)


async def both_are_told(deployment: Deployment) -> None:
    """The registry and the doctor know both workers."""
    rows = await deployment.rows("select schema_version, targets from workers where lease_until > now()")
    assert {row["schema_version"] for row in rows} == {1, BATCH_SCHEMA_VERSION}
    assert all({"chat", "embeddings"} <= set(row["targets"]) for row in rows)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", "doctor", "--port", "0"),
        env={**os.environ, "EBBTIDE_DATABASE_URL": deployment.url, "PYTHONPATH": str(ROOT / "src")},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    for version in (1, BATCH_SCHEMA_VERSION):
        assert f"runs batches up to schema version {version}\n" in said.decode()
    assert "warn workers: they are of several versions" in said.decode()


async def everything_ended_once(deployment: Deployment) -> None:
    """Every request was sent once at most, what was completed exactly once, and nothing is left open."""
    times_sent = Counter(received.text for received in deployment.upstream.requests)
    assert set(times_sent.values()) == {1}
    completed = await deployment.rows("select custom_id from batch_items where state = 'completed'")
    assert {row["custom_id"] for row in completed} == set(times_sent)
    assert await deployment.rows("select id from batch_jobs where phase <> 'sealed'") == []
    assert await deployment.rows("select * from batch_queues") == []
    assert await books(deployment.database) == {}
