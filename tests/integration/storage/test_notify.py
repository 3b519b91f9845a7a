"""Wake-ups: heard after the commit, by every subscriber, and again after the connection was lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ebbtide.storage.notify import Listener, notify
from ebbtide.storage.pool import Database

LONG, SHORT = 20.0, 0.05


@pytest.fixture
async def listener(database: Database) -> AsyncIterator[Listener]:
    async with Listener(database) as listener:
        async with asyncio.timeout(LONG):
            await listener.listening.wait()
        yield listener


async def test_a_message_wakes_each_subscriber_of_its_channel_once(database: Database, listener: Listener) -> None:
    news: list[str] = []
    first, second = listener.subscribe("work", lambda: news.append("work")), listener.subscribe("work")
    other = listener.subscribe("Other \"channel'")
    for wake in (first, second, other):
        assert await wake.wait(LONG), "a new subscriber looks once: something may have come before"
    news.clear()
    async with database.transaction() as connection:
        await notify(connection, "work")
        assert not await first.wait(SHORT), "not before the commit"
    assert await first.wait(LONG)
    assert await second.wait(LONG)
    assert not await first.wait(SHORT)
    assert not await other.wait(SHORT)
    assert news == ["work"]
    first.ring()
    assert await first.wait(LONG)
    assert news == ["work"], "what the subscriber says to itself is no news"
    async with database.transaction() as connection:
        await notify(connection, "Other \"channel'")
    assert await other.wait(LONG)


async def test_a_lost_connection_is_made_again_and_wakes_everyone(database: Database, listener: Listener) -> None:
    news: list[str] = []
    wake = listener.subscribe("work", lambda: news.append("work"))
    assert await wake.wait(LONG)
    news.clear()
    async with database.connection() as connection:
        ended = await connection.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where datname = current_database() and query ilike 'listen%'"
        )
    assert ended == 1
    assert await wake.wait(LONG), "woken by the reconnection"
    assert news == ["work"]
    async with database.transaction() as connection:
        await notify(connection, "work")
    assert await wake.wait(LONG), "and by messages after it"


async def test_listening_through_a_pooler_wakes_nobody_and_ends(database: Database) -> None:
    if not database.pooled:
        pytest.skip("the tests do not run through a pooler")
    async with await Database.connect(database.url) as pooled_only, Listener(pooled_only) as listener:
        wake = listener.subscribe("work")
        async with asyncio.timeout(LONG):
            await listener.stopped.wait()
        assert not listener.listening.is_set()
        async with database.transaction() as connection:
            await notify(connection, "work")
        assert not await wake.wait(SHORT)
