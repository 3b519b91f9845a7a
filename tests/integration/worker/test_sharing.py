"""Slots that one worker gives up reach the one that waits for them at once, not at its next poll."""

from __future__ import annotations

from tests.domain import World, answered

from ebbtide.batches.model import WORK_CHANNEL
from ebbtide.storage.notify import Listener


async def test_a_worker_that_gives_slots_up_wakes_the_others(world: World) -> None:
    world.set(batch_model_concurrency=8)
    await world.many(40)
    first, second = await world.hands(), await world.hands()
    await first.claim()
    assert await second.claim() == []
    heard: list[str] = []
    async with Listener(world.database) as listener:
        bell = listener.subscribe(WORK_CHANNEL, heard.append)
        await listener.listening.wait()
        while await bell.wait(0.05):
            pass  # what was said before
        heard.clear()
        await first.settle(*((work, answered()) for work in first.running[:4]))
        await first.claim()
        assert await bell.wait(10)
    assert heard == ["chat-1"]
    assert len(await second.claim()) >= 3  # the one that the first held ready took a slot before it gave the others up
    assert len(first.running) + len(second.running) == 8
