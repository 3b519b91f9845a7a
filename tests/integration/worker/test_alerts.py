"""The alert that a model's batch requests wait for capacity: when it comes, from whom, where it goes, when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from tests.domain import World
from tests.fake_upstream import Behaviour
from tests.webhook_receiver import HANG, Answer, Receiver

from ebbtide.batches.backlog import read_backlog
from ebbtide.delivery.alerts import Alerts
from ebbtide.delivery.post import Poster
from ebbtide.records.exposition import render_metrics

QUEUED = Behaviour("queued", retry_after="600")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Plain HTTP on this machine: the operator chose it, so it may be anywhere."""
    async with Receiver(None, "127.0.0.1") as receiver:
        yield receiver


def alerts(world: World, *, timeout: float = 5.0) -> Alerts:
    return Alerts(world.database, lambda: world.settings.current, Poster(timeout=timeout), (0.01, 0.01, 0.01))


async def run(world: World, *more: Alerts) -> list[Any]:
    """One round of the duty; what it logs of alerts."""
    with capture_logs() as logs:
        await asyncio.gather(*(one.run_once(world.clock.now()) for one in more or (alerts(world),)))
    return [entry for entry in logs if entry["event"].startswith("alert_")]


async def waiting(world: World, model: str = "chat-1") -> bool:
    found = "select waiting_since is not null from batch_model_state where model = $1"
    return bool(await world.value(found, model))


async def queue_up(world: World, model: str = "chat-1") -> None:
    """Let a model's deployment say that it waits for its hardware."""
    world.set(batch_completion_window_hours=0)
    world.upstream.decide = lambda _: QUEUED
    await world.many(3, model=model)
    async with world.worker():
        await world.until(lambda: waiting(world, model))


async def serve(world: World) -> None:
    """Let the deployment be up, and the requests run."""
    world.upstream.decide = None
    world.clock.move(hours=1)

    async def none_left() -> bool:
        return not await world.value("select exists (select from batch_jobs where phase <> 'sealed')")

    async with world.worker():
        await world.until(none_left)


def metric(name: str, label: str) -> dict[str, float]:
    """A metric's samples, by one of their labels."""
    families = text_string_to_metric_families(render_metrics().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {sample.labels[label]: sample.value for sample in samples}


async def test_one_alert_after_the_hours_and_one_when_it_serves_again(world: World, receiver: Receiver) -> None:
    world.set(alert_webhook_url=receiver.url("/T000/secret"), batch_queued_alert_hours=6)
    await queue_up(world)
    assert await run(world) == []
    world.clock.move(hours=5, minutes=59)
    assert await run(world) == []
    world.clock.move(minutes=1)
    raised = metric("ebbtide_alerts_total", "event")
    (told,) = await run(world)
    assert (told["event"], told["log_level"]) == ("alert_raised", "warning")
    assert (told["title"], told["model"]) == ("Batch model waiting for capacity", "chat-1")
    assert (await read_backlog(world.database)).waiting_models == ["chat-1"]
    assert metric("ebbtide_alerts_total", "event")["raised"] == raised.get("raised", 0) + 1
    world.clock.move(hours=20)
    assert await run(world) == []  # once for the model

    await serve(world)
    (told,) = await run(world)
    assert (told["event"], told["model"]) == ("alert_resolved", "chat-1")
    assert (await read_backlog(world.database)).waiting_models == []
    assert await run(world) == []

    first, second = await receiver.wait_for(2)
    assert msgspec.json.decode(first.body) == {
        "text": "*Batch model waiting for capacity*\n"
        "The deployment of chat-1 has been waiting for capacity since 2026-03-02 12:00 UTC (6 hours). "
        "Its batch requests wait."
    }
    assert set(msgspec.json.decode(second.body)) == {"text"}
    assert "Resolved" in msgspec.json.decode(second.body)["text"]
    assert first.headers["content-type"] == "application/json"


async def test_a_second_wait_is_a_second_alert(world: World) -> None:
    for _ in range(2):
        await queue_up(world)
        world.clock.move(hours=7)
        assert [entry["event"] for entry in await run(world)] == ["alert_raised"]
        await serve(world)
        assert [entry["event"] for entry in await run(world)] == ["alert_resolved"]


async def test_a_model_that_waits_again_before_anybody_looked_is_resolved_and_begins_anew(world: World) -> None:
    await queue_up(world)
    world.clock.move(hours=7)
    await run(world)
    world.clock.move(minutes=1)
    async with world.database.transaction() as conn:
        await conn.execute("update batch_model_state set waiting_since = $1", world.clock.now())
    assert [entry["event"] for entry in await run(world)] == ["alert_resolved"]
    world.clock.move(hours=7)
    assert [entry["event"] for entry in await run(world)] == ["alert_raised"]


async def test_zero_hours_turn_it_off(world: World) -> None:
    world.set(batch_queued_alert_hours=0)
    await queue_up(world)
    world.clock.move(days=30)
    assert await run(world) == []


async def test_nobody_waits_any_more_so_a_later_wait_begins_anew(world: World) -> None:
    await queue_up(world)
    async with world.database.transaction() as conn:
        await conn.execute("update batch_queues set queued = 0")
    world.clock.move(hours=7)
    assert await run(world) == []
    assert not await waiting(world)


async def test_each_model_has_its_own(world: World) -> None:
    await queue_up(world, "chat-1")
    await queue_up(world, "chat-2")
    world.clock.move(hours=7)
    assert {entry["model"] for entry in await run(world)} == {"chat-1", "chat-2"}


async def test_of_many_processes_one_sends_and_all_show_it(world: World, receiver: Receiver) -> None:
    world.set(alert_webhook_url=receiver.url())
    await queue_up(world)
    world.clock.move(hours=7)
    told = await run(world, *(alerts(world) for _ in range(5)))
    assert [entry["event"] for entry in told] == ["alert_raised"]
    assert len(receiver.got) == 1


async def test_the_receiver_is_asked_a_few_times_and_its_address_never_logged(world: World, receiver: Receiver) -> None:
    world.set(alert_webhook_url=receiver.url("/T000/secret"))
    receiver.answers["/T000/secret"] = Answer(500)
    await queue_up(world)
    world.clock.move(hours=7)
    raised, failed = await run(world)
    assert (raised["event"], failed["event"], failed["log_level"]) == ("alert_raised", "alert_not_posted", "error")
    assert len(receiver.got) == 4
    assert "secret" not in str([raised, failed])
    assert await run(world) == []


async def test_a_receiver_that_hangs_holds_nothing_up_for_long(world: World, receiver: Receiver) -> None:
    world.set(alert_webhook_url=receiver.url("/slow"))
    receiver.answers["/slow"] = Answer(HANG)
    await queue_up(world)
    world.clock.move(hours=7)
    raised, failed = await run(world, alerts(world, timeout=0.05))
    assert (raised["event"], failed["reason"]) == ("alert_raised", "No answer within 0.05 seconds")


async def test_the_worker_does_it(world: World, receiver: Receiver) -> None:
    world.set(alert_webhook_url=receiver.url())
    await queue_up(world)
    world.clock.move(hours=7)
    async with world.worker():
        (got,) = await receiver.wait_for(1)
    assert b"chat-1" in got.body
