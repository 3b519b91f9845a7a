"""The statements of webhooks and their events, one typed function each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from ebbtide.delivery.schedule import Health
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

_Q: Final = load_queries("ebbtide.delivery", "store.sql")

EventState: TypeAlias = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """An account's endpoint. `rest_until`: nothing is sent before, since it kept timing out."""

    url: str
    secret: str
    enabled: bool
    created_at: datetime
    updated_at: datetime
    rest_until: datetime | None


@dataclass(frozen=True, slots=True)
class WebhookChange:
    """What to store: None keeps what is there. `secret` is used for a new webhook, and when `rotate` asks for it."""

    url: str | None
    secret: str
    rotate: bool
    enabled: bool | None


@dataclass(frozen=True, slots=True)
class Event:
    """An event and how its delivery went so far; `next_at` is None once that has ended."""

    id: str
    type: str
    created_at: datetime
    batch_id: str
    state: EventState
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    last_status: int | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that one worker may send now, and how its endpoint has been answering."""

    id: str
    type: str
    created_at: datetime
    batch_id: str
    attempts: int
    account_id: str
    url: str
    secret: str
    health: Health


@dataclass(frozen=True, slots=True)
class Try:
    """How one try went, and what becomes of the event."""

    state: EventState
    next_at: datetime | None
    delivered_at: datetime | None
    status: int | None
    error: str | None


async def set_webhook(conn: Connection, account_id: str, change: WebhookChange, now: datetime) -> Webhook | None:
    """Store the change; None when it names no URL and there is no webhook to change."""
    rest = (change.secret, change.enabled, change.rotate, now)
    if change.url is not None:
        return _webhook(await conn.fetchrow(_Q["set_webhook"], account_id, change.url, *rest))
    return _webhook(await conn.fetchrow(_Q["change_webhook"], account_id, *rest))


async def get_webhook(conn: Connection, account_id: str) -> Webhook | None:
    return _webhook(await conn.fetchrow(_Q["get_webhook"], account_id))


async def delete_webhook(conn: Connection, account_id: str) -> bool:
    """Remove the webhook and its undelivered events; False when there was none."""
    found = await conn.fetchval(_Q["delete_webhook"], account_id)
    await conn.execute(_Q["drop_events"], account_id)
    return found is not None


async def find_event(conn: Connection, account_id: str, event_id: str) -> int | None:
    """The number of the account's event."""
    number: int | None = await conn.fetchval(_Q["find_event"], event_id, account_id)
    return number


async def list_events(conn: Connection, account_id: str, after: int | None, limit: int) -> list[Event]:
    return [Event(**row) for row in await conn.fetch(_Q["list_events"], account_id, after, limit)]


async def claim_events(
    conn: Connection, worker_no: int, lease_seconds: float, limit: int, now: datetime
) -> list[ClaimedEvent]:
    """Take up to `limit` accounts' turns, each with its next event. Whose event went elsewhere meanwhile waits."""
    rows = await conn.fetch(_Q["take_turns"], now, worker_no, lease_seconds, limit)
    accounts = [row["account_id"] for row in rows]
    claimed = [_claimed(row) for row in await conn.fetch(_Q["claim_events"], accounts, now)] if accounts else []
    idle = set(accounts) - {event.account_id for event in claimed}
    if idle:
        await hand_turns_back(conn, [(account_id, worker_no) for account_id in idle])
    return claimed


async def end_turn(conn: Connection, event: ClaimedEvent, worker_no: int, health: Health) -> bool:
    """False when the turn was lost, or the webhook is gone: then what was tried must not be recorded."""
    found = await conn.fetchval(
        _Q["end_turn"],
        event.account_id,
        worker_no,
        event.url,
        health.timeouts_in_row,
        health.rest_level,
        health.rest_until,
    )
    return found is not None


async def record_try(conn: Connection, event_id: str, done: Try) -> None:
    await conn.execute(_Q["record_try"], event_id, done.state, done.next_at, done.delivered_at, done.status, done.error)


async def hand_turns_back(conn: Connection, turns: Sequence[tuple[str, int]]) -> None:
    """`turns` are (account id, worker number)."""
    await conn.execute(_Q["hand_turns_back"], [account for account, _ in turns], [number for _, number in turns])


async def prune_events(conn: Connection, before: datetime, limit: int) -> int:
    return _changed(await conn.execute(_Q["prune_events"], before, limit))


async def drop_strays(conn: Connection, limit: int) -> int:
    return _changed(await conn.execute(_Q["drop_strays"], limit))


async def deleted_accounts(conn: Connection, limit: int) -> list[str]:
    return [row["account_id"] for row in await conn.fetch(_Q["deleted_accounts"], limit)]


async def remove_webhook(conn: Connection, account_id: str) -> int:
    return _changed(await conn.execute(_Q["remove_webhook"], account_id))


async def remove_events(conn: Connection, account_id: str, limit: int) -> int:
    return _changed(await conn.execute(_Q["remove_events"], account_id, limit))


async def has_webhook(conn: Connection, account_id: str) -> bool:
    return bool(await conn.fetchval(_Q["has_webhook"], account_id))


def _changed(tag: str) -> int:
    """How many rows a command's tag (`DELETE 3`) tells."""
    return int(tag.rpartition(" ")[2])


def _webhook(row: Any) -> Webhook | None:
    return None if row is None else Webhook(**row)


def _claimed(row: Any) -> ClaimedEvent:
    values = dict(row)
    health = Health(values.pop("timeouts_in_row"), values.pop("rest_level"), values.pop("rest_until"))
    return ClaimedEvent(**values, health=health)
