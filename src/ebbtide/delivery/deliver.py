"""Sending events: one at a time per account, accounts side by side, so that a slow endpoint delays nobody else.

A worker sends only while it holds the account's turn, a lease on the database's clock that is longer than any try. One
that is lost with a turn loses no event: after the lease somebody sends it again, under the same id.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from ebbtide.clock import Clock
from ebbtide.delivery import store
from ebbtide.delivery.post import Delivered, Letter, Poster, Undelivered
from ebbtide.delivery.schedule import after_failure, after_success, next_try
from ebbtide.delivery.sign import event_body, signed_headers
from ebbtide.delivery.store import ClaimedEvent, Try
from ebbtide.errors import Unavailable
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database

log = structlog.get_logger(__name__)

AT_ONCE: Final = 64
TURN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What sending works with."""

    database: Database
    settings: SettingsSource
    clock: Clock
    poster: Poster
    rng: random.Random = field(default_factory=random.Random)


class Deliverer:
    """One worker's sender: `run_once` starts what is due and returns; `wake` is called when a turn has ended.

    `worker_no` tells the worker's number at the moment, None while it has no lease.
    """

    def __init__(self, delivery: Delivery, worker_no: Callable[[], int | None], *, at_once: int = AT_ONCE) -> None:
        self._delivery = delivery
        self._worker_no = worker_no
        self._at_once = at_once
        self._sending: dict[asyncio.Task[None], tuple[str, int]] = {}
        self.wake: Callable[[], None] = _nobody

    async def run_once(self, now: datetime) -> int:
        """Start sending what is due, as far as there is room; how many were started."""
        room = self._at_once - len(self._sending)
        worker_no = self._worker_no()
        if room <= 0 or worker_no is None or not self._delivery.settings.current.batch_enabled:
            return 0
        async with self._delivery.database.transaction() as conn:
            events = await store.claim_events(conn, worker_no, TURN_SECONDS, room, now)
        for event in events:
            task = asyncio.create_task(self._deliver(event, worker_no), name=f"deliver {event.id}")
            self._sending[task] = (event.account_id, worker_no)
            task.add_done_callback(self._ended)
        return len(events)

    async def settled(self) -> None:
        """Wait for what is being sent at the moment."""
        if self._sending:
            await asyncio.wait(list(self._sending))

    async def close(self, grace: float) -> None:
        """Let what is being sent finish for `grace` seconds, cut off the rest and give its turns back."""
        if self._sending and grace > 0:
            await asyncio.wait(list(self._sending), timeout=grace)
        left = dict(self._sending)
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        try:
            async with self._delivery.database.transaction() as conn:
                await store.hand_turns_back(conn, list(left.values()))
        except Unavailable as error:
            log.warning("webhook_turns_kept", reason=error.message)

    async def _deliver(self, event: ClaimedEvent, worker_no: int) -> None:
        outcome = await self._try(event)
        try:
            await self._record(event, worker_no, outcome)
        except Unavailable as error:
            log.warning("webhook_try_not_recorded", webhook_event=event.id, reason=error.message)

    async def _try(self, event: ClaimedEvent) -> Delivered | Undelivered:
        delivery = self._delivery
        body = event_body(event.id, event.type, event.created_at, event.batch_id)
        headers = signed_headers(event.secret, event.id, body, delivery.clock.now())
        allow_private = delivery.settings.current.batch_webhook_allow_private_targets
        try:
            return await delivery.poster.post(Letter(event.url, headers, body, allow_private))
        except Exception as error:
            # A mistake of ours must not send one event for ever: it counts as a try, and the log says what it was.
            log.error("webhook_try_broke", webhook_event=event.id, error=type(error).__name__, exc_info=error)
            return Undelivered("The gateway could not send it")

    async def _record(self, event: ClaimedEvent, worker_no: int, outcome: Delivered | Undelivered) -> None:
        now = self._delivery.clock.now()
        if isinstance(outcome, Delivered):
            done = Try("delivered", None, now, outcome.status, None)
            health = after_success()
        else:
            again = next_try(event.attempts + 1, now, self._delivery.rng)
            done = Try("failed" if again is None else "pending", again, None, outcome.status, outcome.words)
            health = after_failure(event.health, now, timed_out=outcome.timed_out)
        async with self._delivery.database.transaction() as conn:
            if not await store.end_turn(conn, event, worker_no, health):
                return  # removed meanwhile, or somebody else's by now
            await store.record_try(conn, event.id, done)
        if isinstance(outcome, Undelivered):
            told = {"webhook_event": event.id, "account": event.account_id, "attempt": event.attempts + 1}
            log.warning("webhook_" + ("given_up" if done.state == "failed" else "failed"), reason=outcome.words, **told)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._sending[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("webhook_delivery_broke", error=type(error).__name__, exc_info=error)
        self.wake()


def _nobody() -> None:
    """Nobody waits to be woken."""
