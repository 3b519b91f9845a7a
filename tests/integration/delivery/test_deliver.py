"""Events on their way: the schedule, turns between workers and accounts, endpoints that rest, what gets lost.

The clock is moved by hand; only the lease of a turn is the database's.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from standardwebhooks import Webhook
from tests.integration.delivery.conftest import Desk, here
from tests.people import delete_account, set_role
from tests.webhook_receiver import HANG, Answer, Receiver

from ebbtide.accounts.roles import Role
from ebbtide.delivery.post import Delivered, Letter, Poster
from ebbtide.delivery.webhooks import delete_webhook, prune_webhooks
from ebbtide.settings.snapshot import Settings


async def test_an_event_is_delivered_once_and_signed(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    secret = await desk.webhook(account, receiver.url())
    event_id = await desk.event(account, "batch_abc")
    assert await desk.send(desk.deliverer()) == 1
    got = receiver.got[0]
    body = Webhook(secret).verify(got.body, dict(got.headers))
    assert body == {
        "id": event_id,
        "object": "event",
        "type": "batch.completed",
        "created_at": int(desk.clock.now().timestamp()),
        "data": {"id": "batch_abc"},
    }
    (event,) = await desk.events(account)
    assert (event.state, event.attempts, event.last_status, event.last_error) == ("delivered", 1, 200, None)
    assert (event.delivered_at, event.next_at) == (desk.clock.now(), None)
    desk.clock.move(days=1)
    assert await desk.send(desk.deliverer()) == 0


async def test_eight_tries_then_it_has_failed(desk: Desk, receiver: Receiver) -> None:
    """Each try has the event's id, its own time and its own signature."""
    receiver.answers["/hook"] = Answer(503)
    account = await desk.account("a")
    secret = await desk.webhook(account, receiver.url())
    desk.clock = type(desk.clock)(datetime.now(UTC) - timedelta(hours=9))
    event_id = await desk.event(account)
    deliverer = desk.deliverer()
    for attempt, seconds in enumerate([0, 5, 30, 120, 600, 1_800, 7_200, 21_600], start=1):
        desk.clock.move(seconds=seconds * 0.89)
        assert await desk.send(deliverer) == (1 if seconds == 0 else 0), "not before its time"
        desk.clock.move(seconds=seconds * 0.22)
        assert await desk.send(deliverer) == (0 if seconds == 0 else 1)
        (event,) = await desk.events(account)
        assert (event.attempts, event.last_status) == (attempt, 503)
        assert event.last_error == "Answered with status 503"
    assert (event.state, event.next_at, event.delivered_at) == ("failed", None, None)
    desk.clock.move(days=2)
    assert await desk.send(deliverer) == 0
    assert {got.event_id for got in receiver.got} == {event_id}
    assert len({got.headers["webhook-timestamp"] for got in receiver.got}) == 8
    assert len({got.headers["webhook-signature"] for got in receiver.got}) == 8
    assert len({got.body for got in receiver.got}) == 1
    for got in receiver.got:
        signature = Webhook(secret).sign(
            event_id, datetime.fromtimestamp(int(got.headers["webhook-timestamp"]), UTC), got.body.decode()
        )
        assert got.headers["webhook-signature"] == signature


async def test_a_failing_event_does_not_hold_up_the_next_ones(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(500)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    first = await desk.event(account)
    deliverer = desk.deliverer()
    await desk.send(deliverer)
    receiver.answers["/hook"] = Answer(200)
    second, third = await desk.event(account), await desk.event(account)
    await desk.send(deliverer)
    desk.clock.move(seconds=6)
    await desk.send(deliverer)
    assert [got.event_id for got in receiver.got] == [first, second, third, first]
    assert {event.state for event in await desk.events(account)} == {"delivered"}


async def test_one_at_a_time_for_an_account_and_in_order(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    ids = [await desk.event(account, f"batch_{n}") for n in range(12)]
    deliverers = [desk.deliverer(worker_no) for worker_no in (1, 2, 3)]
    tries = await asyncio.gather(*map(desk.send, deliverers))
    while await desk.send(deliverers[0]):
        pass
    assert sum(tries) <= 12
    assert [got.event_id for got in receiver.got] == ids, "each exactly once, in order of creation"
    assert receiver.busiest == 1


async def test_two_workers_that_race_for_many_accounts(desk: Desk, receiver: Receiver) -> None:
    accounts = [await desk.account(f"a{n}") for n in range(10)]
    for account in accounts:
        await desk.webhook(account, receiver.url(f"/{account.account_id}"))
    ids = {await desk.event(account) for account in accounts for _ in range(4)}
    deliverers = [desk.deliverer(worker_no, at_once=3) for worker_no in (1, 2, 3)]
    while sum(await asyncio.gather(*map(desk.send, deliverers))):
        pass
    assert len(receiver.got) == 40
    assert {got.event_id for got in receiver.got} == ids


async def test_a_slow_endpoint_delays_nobody_else(desk: Desk, receiver: Receiver, authority: trustme.CA) -> None:
    async with Receiver(authority, "slow.example") as slow:
        slow.answers["/hook"] = Answer(HANG)
        slow_one, fast_one = await desk.account("slow"), await desk.account("fast")
        await desk.webhook(slow_one, slow.url())
        await desk.webhook(fast_one, receiver.url())
        held = [await desk.event(slow_one), await desk.event(slow_one)]
        quick = [await desk.event(fast_one) for _ in range(5)]
        deliverer = desk.deliverer()
        woken = asyncio.Event()
        deliverer.wake = woken.set
        assert await deliverer.run_once(desk.clock.now()) == 2
        await slow.wait_for(1)
        while len(receiver.got) < 5:
            await woken.wait()
            woken.clear()
            await deliverer.run_once(desk.clock.now())
        assert [got.event_id for got in receiver.got] == quick
        assert [got.event_id for got in slow.got] == held[:1], "the slow one's next event waits for its turn"
        slow.answers.clear()
        slow.release()
        await deliverer.settled()
        await desk.send(deliverer)
        assert [got.event_id for got in slow.got] == held
        assert slow.busiest == 1


async def test_no_more_than_so_many_at_once(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    for n in range(5):
        account = await desk.account(f"a{n}")
        await desk.webhook(account, receiver.url())
        await desk.event(account)
    deliverer = desk.deliverer(at_once=2)
    assert await deliverer.run_once(desk.clock.now()) == 2
    assert await deliverer.run_once(desk.clock.now()) == 0
    await receiver.wait_for(2)
    receiver.release()
    receiver.answers.clear()
    await deliverer.settled()
    assert await desk.send(deliverer) == 3


async def test_a_worker_lost_in_mid_delivery_loses_no_event(desk: Desk, receiver: Receiver) -> None:
    """Its turn runs out on the database's clock; another sends it again; its own late word changes nothing."""
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    event_id = await desk.event(account)
    lost, other = desk.deliverer(1), desk.deliverer(2)
    assert await lost.run_once(desk.clock.now()) == 1
    await receiver.wait_for(1)
    assert await other.run_once(desk.clock.now()) == 0, "it is the first worker's turn"
    await desk.lapse()
    receiver.answers["/hook"] = Answer(500)
    assert await other.run_once(desk.clock.now()) == 1
    await other.settled()
    receiver.release()  # the first worker hears a 200 now, and has nothing to say any more
    await lost.settled()
    (event,) = await desk.events(account)
    assert (event.state, event.attempts, event.last_status) == ("pending", 1, 500)
    receiver.answers["/hook"] = Answer(200)
    desk.clock.move(seconds=6)
    await desk.send(other)
    assert [got.event_id for got in receiver.got] == [event_id] * 3
    assert (await desk.events(account))[0].state == "delivered"


async def test_a_worker_that_stops_gives_its_turn_back(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    stopping, other = desk.deliverer(1), desk.deliverer(2)
    await stopping.run_once(desk.clock.now())
    await receiver.wait_for(1)
    await stopping.close(0)
    receiver.answers.clear()
    assert await desk.send(other) == 1
    assert (await desk.events(account))[0].state == "delivered"


async def test_a_stopping_worker_lets_a_delivery_finish(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    deliverer = desk.deliverer()
    await deliverer.run_once(desk.clock.now())
    await deliverer.close(20)
    assert (await desk.events(account))[0].state == "delivered"


async def test_an_endpoint_that_times_out_three_times_in_a_row_rests(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    for n in range(3):
        await desk.event(account, f"batch_{n}")
    deliverer = desk.deliverer(timeout=0.1)
    assert await desk.send(deliverer) == 3
    assert {event.last_error for event in await desk.events(account)} == {"No answer within 0.1 seconds"}
    await desk.event(account, "batch_late")
    for rest in (10, 20, 40, 60, 60):
        desk.clock.move(minutes=rest, seconds=-1)
        assert await desk.send(deliverer) == 0, "it rests"
        desk.clock.move(seconds=1)
        assert await desk.send(deliverer) == 1, "one try, and it rests again"
    receiver.answers["/hook"] = Answer(200)
    receiver.release()
    desk.clock.move(hours=1)
    tried = len(receiver.got)
    await desk.send(deliverer)
    assert len(receiver.got) - tried >= 3, "a success clears it"
    async with desk.database.connection() as conn:
        row = await conn.fetchrow("select timeouts_in_row, rest_level, rest_until from batch_webhooks")
    assert row is not None
    assert tuple(row) == (0, 0, None)


async def test_a_new_address_has_no_past(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    for _ in range(3):
        await desk.event(account)
    deliverer = desk.deliverer(timeout=0.1)
    await desk.send(deliverer)
    await desk.event(account)
    assert await desk.send(deliverer) == 0
    await desk.webhook(account, receiver.url("/better"))
    assert await desk.send(deliverer) == 1
    assert receiver.got[-1].path == "/better"


async def test_a_change_in_mid_delivery_keeps_the_new_address_clean(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    deliverer = desk.deliverer(timeout=0.3)
    await deliverer.run_once(desk.clock.now())
    await receiver.wait_for(1)
    await desk.webhook(account, receiver.url("/better"))
    await deliverer.settled()
    async with desk.database.connection() as conn:
        assert await conn.fetchval("select timeouts_in_row from batch_webhooks") == 0
    desk.clock.move(seconds=6)
    await desk.send(deliverer)
    assert receiver.got[-1].path == "/better"


async def test_switched_off_it_waits_and_switched_on_it_goes(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    secret = await desk.webhook(account, receiver.url())
    await desk.event(account)
    await desk.webhook(account, None, enabled=False)
    deliverer = desk.deliverer()
    assert await desk.send(deliverer) == 0
    assert await desk.webhook(account, None, enabled=True) == "", "the secret stays"
    assert await desk.send(deliverer) == 1
    assert Webhook(secret).verify(receiver.got[0].body, dict(receiver.got[0].headers))


async def test_a_rotated_secret_signs_from_then_on(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    old = await desk.webhook(account, receiver.url())
    new = await desk.webhook(account, None, rotate_secret=True)
    assert new.startswith("whsec_")
    assert new != old
    assert await desk.webhook(account, receiver.url("/elsewhere")) == ""
    await desk.event(account)
    await desk.send(desk.deliverer())
    assert Webhook(new).verify(receiver.got[0].body, dict(receiver.got[0].headers))


async def test_removing_the_webhook_drops_what_was_to_come(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    await desk.send(desk.deliverer())
    await desk.event(account)
    await delete_webhook(desk.database, account)
    assert [event.state for event in await desk.events(account)] == ["delivered"]
    assert await desk.send(desk.deliverer()) == 0


async def test_removing_it_in_mid_delivery(desk: Desk, receiver: Receiver) -> None:
    receiver.answers["/hook"] = Answer(HANG)
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    deliverer = desk.deliverer()
    await deliverer.run_once(desk.clock.now())
    await receiver.wait_for(1)
    await delete_webhook(desk.database, account)
    receiver.release()
    await deliverer.settled()
    assert await desk.events(account) == []


async def test_a_lowered_role_still_gets_its_events(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await set_role(desk.database, account.account_id, Role.FREE)
    await desk.event(account)
    assert await desk.send(desk.deliverer()) == 1


async def test_a_deleted_account_gets_none_and_its_webhook_goes(desk: Desk, receiver: Receiver) -> None:
    account, other = await desk.account("a"), await desk.account("b")
    for one in (account, other):
        await desk.webhook(one, receiver.url())
        await desk.event(one)
    await delete_account(desk.database, account.account_id)
    assert await desk.send(desk.deliverer()) == 1
    assert await prune_webhooks(desk.database, desk.clock.now()) > 0
    async with desk.database.connection() as conn:
        rows = await conn.fetch("select account_id from batch_webhooks")
        left = await conn.fetch("select account_id from batch_webhook_events")
    assert [row["account_id"] for row in rows] == [other.account_id]
    assert [row["account_id"] for row in left] == [other.account_id]


async def test_old_events_are_forgotten(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account, "batch_old")
    desk.clock.move(days=1)
    await desk.event(account, "batch_new")
    await desk.send(desk.deliverer())
    desk.clock.move(days=29, seconds=1)
    assert await prune_webhooks(desk.database, desk.clock.now()) == 1
    assert [event.batch_id for event in await desk.events(account)] == ["batch_new"]


async def test_nothing_is_sent_while_batches_are_switched_off(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    on = desk.settings.current
    desk.settings.swap(Settings(batch_enabled=False, batch_webhook_allow_private_targets=True))
    deliverer = desk.deliverer()
    assert await desk.send(deliverer) == 0
    desk.settings.swap(on)
    assert await desk.send(deliverer) == 1


async def test_private_targets_that_are_no_longer_allowed(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    desk.settings.swap(Settings())
    await desk.send(desk.deliverer())
    (event,) = await desk.events(account)
    assert (event.state, event.last_error) == ("pending", "Not sent: it leads to an address that is not public")
    assert receiver.got == []


class BrokenPoster(Poster):
    """Fails in a way that nobody foresaw, the first time."""

    broke = False

    async def post(self, letter: Letter) -> Delivered:
        if not self.broke:
            self.broke = True
            raise RuntimeError("unforeseen")
        return Delivered(200)


async def test_a_mistake_of_ours_counts_as_a_try(desk: Desk) -> None:
    account = await desk.account("a")
    await desk.webhook(account, "https://hooks.example/")
    await desk.event(account)
    deliverer = desk.deliverer(poster=BrokenPoster(resolve=here))
    await desk.send(deliverer)
    (event,) = await desk.events(account)
    assert (event.state, event.attempts, event.last_error) == ("pending", 1, "The gateway could not send it")
    desk.clock.move(seconds=6)
    await desk.send(deliverer)
    assert (await desk.events(account))[0].state == "delivered"


async def test_without_a_worker_number_nothing_is_taken(desk: Desk, receiver: Receiver) -> None:
    account = await desk.account("a")
    await desk.webhook(account, receiver.url())
    await desk.event(account)
    assert await desk.send(desk.deliverer(None)) == 0


async def test_no_secret_in_the_log(desk: Desk, receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    receiver.answers["/token-in-the-path"] = Answer(500)
    account = await desk.account("a")
    secret = await desk.webhook(account, receiver.url("/token-in-the-path"))
    await desk.event(account)
    await desk.send(desk.deliverer())
    said = "".join(capsys.readouterr())
    assert "webhook_failed" in said
    for hidden in (secret, "token-in-the-path", "a secret of the receiver"):
        assert hidden not in said
