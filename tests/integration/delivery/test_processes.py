"""Real worker processes: killed or stopped in the middle of a delivery, they lose no event."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trustme
from tests.gateway import until
from tests.integration.delivery.conftest import Desk
from tests.webhook_receiver import HANG, Answer, Receiver

pytestmark = pytest.mark.processes
Start = Callable[[], AbstractAsyncContextManager[asyncio.subprocess.Process]]


@pytest.fixture
async def receiver(authority: trustme.CA) -> AsyncIterator[Receiver]:
    async with Receiver(authority, "localhost") as receiver:
        yield receiver


@pytest.fixture
def worker(database_url: str, listen_url: str, ca_file: Path) -> Start:
    environ = {
        **os.environ,
        "EBBTIDE_DATABASE_URL": database_url,
        "EBBTIDE_DATABASE_LISTEN_URL": listen_url,
        "EBBTIDE_WEBHOOK_CA_FILE": str(ca_file),
        "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on",
    }

    @asynccontextmanager
    async def start() -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ebbtide", "worker"), env=environ, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    return start


async def until_delivered(desk: Desk) -> int:
    """How many tries are on record once every event is delivered."""

    async def tries() -> int:
        async with desk.database.connection() as conn:
            return (
                await conn.fetchval(
                    "select sum(attempts) from batch_webhook_events having bool_and(state = 'delivered')"
                )
                or 0
            )

    return int(await until(tries))


async def test_a_killed_worker_loses_no_event(desk: Desk, receiver: Receiver, worker: Start) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    event_id = await desk.event(account)
    async with worker() as first:
        await receiver.wait_for(1)
        first.send_signal(signal.SIGKILL)
        await first.wait()
    receiver.answers.clear()
    await desk.lapse()
    async with worker():
        await receiver.wait_for(2)
        assert await until_delivered(desk) == 1, "what the first one tried is not on record"
    assert [got.event_id for got in receiver.got] == [event_id, event_id]


async def test_a_worker_told_to_stop_lets_its_delivery_finish(desk: Desk, receiver: Receiver, worker: Start) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    async with worker() as process:
        await receiver.wait_for(1)
        process.send_signal(signal.SIGTERM)
        receiver.release()
        assert await process.wait() == 0
    assert await until_delivered(desk) == 1
    assert len(receiver.got) == 1
