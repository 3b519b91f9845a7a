"""Webhook tests: an authority of their own, endpoints with a name that leads here, and a sender on a movable clock."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from tests.clocks import ManualClock
from tests.domain import own_world, shared_database, world
from tests.people import create_account
from tests.webhook_receiver import Receiver, write_authority

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.delivery.deliver import Deliverer, Delivery
from ebbtide.delivery.post import Poster
from ebbtide.delivery.store import Event
from ebbtide.delivery.webhooks import Registrar, list_events, set_webhook
from ebbtide.dialects.openai.webhook import SetWebhook
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.storage.pool import Database

__all__ = ["own_world", "shared_database", "world"]

PRIVATE = Settings(batch_webhook_allow_private_targets=True)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    return write_authority(authority, tmp_path)


@pytest.fixture
async def receiver(authority: trustme.CA) -> AsyncIterator[Receiver]:
    async with Receiver(authority, "hooks.example") as receiver:
        yield receiver


async def here(host: str, port: int) -> list[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


@dataclass
class Desk:
    """A database with accounts, their webhooks and events, and senders for them."""

    database: Database
    ca_file: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(datetime.now(UTC)))
    settings: SettingsSource = field(default_factory=lambda: SettingsSource(PRIVATE))

    def deliverer(
        self, worker_no: int | None = 1, *, poster: Poster | None = None, at_once: int = 64, timeout: float = 10
    ) -> Deliverer:
        poster = poster or Poster(self.ca_file, resolve=here, timeout=timeout)
        delivery = Delivery(self.database, self.settings, self.clock, poster, random.Random(1))
        return Deliverer(delivery, lambda: worker_no, at_once=at_once)

    async def account(self, name: str, role: Role = Role.INTERNAL) -> Principal:
        account = await create_account(self.database, name, role, self.clock.now())
        return Principal(account.id, f"key_{name}", role)

    async def webhook(self, principal: Principal, url: str | None, **more: bool) -> str:
        """Set it; the secret, empty when it is not new."""
        registrar = Registrar(self.database, self.settings.current, here)
        shown = await set_webhook(registrar, principal, SetWebhook(url, **more), self.clock.now())
        return shown.secret or ""

    async def event(self, principal: Principal, batch_id: str = "batch_1") -> str:
        """An event as the sealing of a batch leaves it."""
        async with self.database.transaction() as conn:
            event_id = await conn.fetchval(
                "insert into batch_webhook_events (id, account_id, batch_id, type, created_at, next_at) values "
                "('evt_' || replace(gen_random_uuid()::text, '-', ''), $1, $2, 'batch.completed', $3, $3) returning id",
                principal.account_id,
                batch_id,
                self.clock.now(),
            )
        return str(event_id)

    async def events(self, principal: Principal) -> list[Event]:
        """Newest first."""
        return (await list_events(self.database, principal, None, 100)).items

    async def send(self, deliverer: Deliverer) -> int:
        """Send all that is due now, and wait for it; how many tries that were."""
        tries = 0
        while started := await deliverer.run_once(self.clock.now()):
            tries += started
            await deliverer.settled()
        return tries

    async def lapse(self) -> None:
        """The turns of a worker that was lost run out."""
        async with self.database.transaction() as conn:
            await conn.execute("update batch_webhooks set busy_until = now() - interval '1 second'")


@pytest.fixture
def desk(database: Database, ca_file: Path) -> Desk:
    return Desk(database, ca_file)
