"""Choices for routes: laid over the models of the moment, in force elsewhere soon, and nothing rebuilt idly."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from ebbtide.catalog import policies
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, Route
from ebbtide.catalog.policies import PolicySource, RouteChoice, choose_route
from ebbtide.catalog.source import FixedSource
from ebbtide.clock import SystemClock
from ebbtide.duties import repeat
from ebbtide.errors import InvalidRequest
from ebbtide.records.audit import list_audit
from ebbtide.storage.notify import Listener
from ebbtide.storage.pool import Database

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def models() -> Catalog:
    local = Route("local", "vllm", "m", "http://127.0.0.1:1/v1")
    cloud = Route("cloud", "openai", "m", "https://api.example/v1")
    return Catalog.of(
        [
            Model("chat", "chat", (local, cloud)),
            Model("other", "chat", (Route("local", "vllm", "m", "http://127.0.0.1:2/v1"),)),
            Model("embed", "embedding", (Route("cloud", "openai", "m", "https://api.example/v1"),)),
        ]
    )


@pytest.fixture
def plain() -> FixedSource:
    return FixedSource(models())


@pytest.fixture
async def source(database: Database, plain: FixedSource) -> PolicySource:
    source = PolicySource(plain)
    await source.start()
    await source.refresh(database)
    return source


async def choose(database: Database, catalog: Catalog, model: str, route: str, allowed: bool | None) -> None:
    found = catalog.resolve(model)
    assert found is not None
    (wanted,) = [r for r in found.routes if r.id == route]
    await choose_route(database, RouteChoice(found, wanted, allowed), "acct/key", NOW)


def allowed(source: PolicySource) -> dict[str, bool]:
    return {f"{model.id}/{route.id}": route.batch_allowed for model in source.current.models for route in model.routes}


async def test_without_choices_the_catalog_is_the_other_sources_own(source: PolicySource, plain: FixedSource) -> None:
    assert source.current.models == plain.current.models
    assert allowed(source) == {"chat/local": True, "chat/cloud": False, "other/local": True, "embed/cloud": False}


async def test_a_choice_wins_over_the_locality_and_null_takes_it_back(database: Database, source: PolicySource) -> None:
    await choose(database, source.current, "chat", "cloud", True)
    await choose(database, source.current, "chat", "local", False)
    await source.refresh(database)
    assert allowed(source) == {"chat/local": False, "chat/cloud": True, "other/local": True, "embed/cloud": False}
    await choose(database, source.current, "chat", "cloud", None)
    await source.refresh(database)
    assert allowed(source) == {"chat/local": False, "chat/cloud": False, "other/local": True, "embed/cloud": False}
    chat = source.current.resolve("chat")
    assert chat is not None
    assert not chat.has_batch_route


async def test_what_did_not_change_stays_the_same_object(
    database: Database, source: PolicySource, plain: FixedSource
) -> None:
    await choose(database, source.current, "chat", "cloud", True)
    await source.refresh(database)
    first = source.current
    await source.refresh(database)
    assert source.current is first
    await choose(database, source.current, "other", "local", False)
    await source.refresh(database)
    second = source.current
    assert second is not first
    assert second.models[0].routes == first.models[0].routes  # compared by identity
    assert second.models[0].routes[0] is plain.current.models[0].routes[0]
    assert second.models[2] is plain.current.models[2]


async def test_models_that_are_read_anew_keep_their_choices(
    database: Database, source: PolicySource, plain: FixedSource
) -> None:
    await choose(database, source.current, "chat", "cloud", True)
    await source.refresh(database)
    plain.current = Catalog.of(models().models[1:])
    assert allowed(source) == {"other/local": True, "embed/cloud": False}
    plain.current = models()
    assert allowed(source)["chat/cloud"] is True


async def test_embedding_models_have_no_choice_even_if_one_is_stored(database: Database, source: PolicySource) -> None:
    with pytest.raises(InvalidRequest):
        await choose(database, source.current, "embed", "cloud", True)
    async with database.connection() as conn:
        await conn.execute(
            "insert into provider_route_batch_policies values ('embed', 'cloud', true, now(), 'an older build')"
        )
    await source.refresh(database)
    assert allowed(source)["embed/cloud"] is False


async def test_each_change_has_one_audit_row_and_no_change_none(database: Database, source: PolicySource) -> None:
    for choice in (True, True, False, None, None):
        await choose(database, source.current, "chat", "cloud", choice)
    entries = (await list_audit(database)).entries
    told = [(entry.actor, entry.action, entry.object, entry.detail) for entry in reversed(entries)]
    assert told == [
        ("acct/key", "route.batch_choice", "chat/cloud", {"old": old, "new": new})
        for old, new in ((None, True), (True, False), (False, None))
    ]


async def test_another_process_is_told(database: Database, plain: FixedSource) -> None:
    source = PolicySource(plain)
    async with Listener(database) as listener:
        duty = source.following(database, listener)
        following = asyncio.create_task(repeat(duty, SystemClock(), random.Random()))
        async with asyncio.timeout(10):
            while not _is_heard(listener):  # noqa: ASYNC110  the listener connects
                await asyncio.sleep(0.01)
        await choose(database, source.current, "chat", "cloud", True)
        async with asyncio.timeout(policies.POLL_SECONDS + 5):
            while not allowed(source)["chat/cloud"]:  # noqa: ASYNC110  what the rooms see
                await asyncio.sleep(0.01)
        assert await duty.check() is None
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _is_heard(listener: Listener) -> bool:
    return listener.listening.is_set() or listener.stopped.is_set()
