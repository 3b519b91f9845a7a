"""Real gateway processes on a database, with a chat and an embedding model at a fake upstream."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import chat_model, embedding_model, models_file
from tests.processes import PostgresProcesses, Processes

PRICING = {"input": 1.0, "output": 2.0}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture
def models(upstream: FakeUpstream, tmp_path: Path) -> Path:
    return models_file(
        tmp_path, chat_model(upstream.url, pricing=PRICING), embedding_model(upstream.url, pricing=PRICING)
    )


@pytest.fixture
async def processes(database_url: str, listen_url: str, models: Path, tmp_path: Path) -> AsyncIterator[Processes]:
    """Gateways on one fresh database of the test session's server."""
    environ = {"EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
    async with Processes(tmp_path, models, **environ) as processes:
        yield processes


@pytest.fixture
def postgres(data_dir: Path) -> Iterator[PostgresProcesses]:
    """The embedded server that `embedded` gateways share."""
    postgres = PostgresProcesses(data_dir)
    yield postgres
    postgres.signal(signal.SIGCONT)
    postgres.kill()


@pytest.fixture
async def embedded(
    postgres: PostgresProcesses, data_dir: Path, models: Path, tmp_path: Path
) -> AsyncIterator[Processes]:
    """Gateways on an embedded PostgreSQL of their own."""
    async with Processes(tmp_path, models, EBBTIDE_DATA_DIR=str(data_dir)) as processes:
        yield processes
