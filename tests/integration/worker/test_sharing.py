"""Slots that one worker gives up reach the one that waits for them at once, not at its next poll."""

from __future__ import annotations

from tests.domain import World, answered

from ebbtide.batches import workers_store
from ebbtide.batches.model import WORK_CHANNEL
from ebbtide.storage.notify import Listener


async def test_a_worker_that_gives_slots_up_wakes_the_others(world: World) -> None:
    world.set(batch_model_concurrency=8)
    await world.many(40)
    first, second = await world.hands(), await world.hands()
    await first.claim()
    assert await second.claim() == []
    async with Listener(world.database) as listener:
        bell = listener.subscribe(WORK_CHANNEL)
        await listener.listening.wait()
        while await bell.wait(0.05):
            pass  # what was said before
        await first.settle(*((work, answered()) for work in first.running[:4]))
        await first.claim()
        assert await bell.wait(10)
    assert len(await second.claim()) >= 3  # the one that the first held ready took a slot before it gave the others up
    assert len(first.running) + len(second.running) == 8


async def test_a_worker_that_no_longer_asks_takes_no_part(world: World) -> None:
    """It asked for slots in vain, and then there was nothing left for it to ask for."""
    world.set(batch_model_concurrency=4)
    await world.many(20)
    first, second = await world.hands(), await world.hands()
    await first.claim()
    await second.claim()

    async def told() -> list[tuple[int, bool]]:
        async with world.database.connection() as conn:
            slots = await workers_store.list_slots(conn, "chat-1")
        return sorted((each.worker_no, each.wants) for each in slots)

    assert await told() == [(first.worker_no, True), (second.worker_no, True)]
    await world.value("update batch_slots set asked_at = asked_at - interval '3 seconds' returning 1")
    assert await told() == [(first.worker_no, False)]
    async with world.database.transaction() as conn:
        await workers_store.set_slots(conn, "chat-1", first.worker_no, [("another-account", 0, 0)])
    assert [row["worker_no"] for row in await world.fetch("select worker_no from batch_slots")] == [first.worker_no]
