"""A gateway over real HTTP with a chat and an embedding model at a fake upstream, on a fresh database for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import TestGateway, chat_model, embedding_model, models_file, start_gateway


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture
def models(upstream: FakeUpstream, tmp_path: Path) -> Path:
    return models_file(
        tmp_path,
        chat_model(upstream.url, aliases=["short"]),
        embedding_model(upstream.url),
        chat_model(upstream.url, "org/for-admins", min_role="admin"),
    )


@pytest.fixture
async def gateway(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    """The HTTP side alone: no worker runs what is created."""
    async with start_gateway(database_url, models, role="api", listen_url=listen_url) as gateway:
        yield gateway
