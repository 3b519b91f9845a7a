"""An account's webhook: set up, changed, shown, removed, and what was sent to it.

Setting up and changing needs BATCH_MIN_ROLE at the time of the request; whoever lost it may still read and remove.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ebbtide.accounts.purges import Step
from ebbtide.accounts.roles import Role, refusal
from ebbtide.accounts.store import Principal, find_account
from ebbtide.delivery import store
from ebbtide.delivery.addresses import BadTarget, Resolve, check_target, resolve_host
from ebbtide.delivery.sign import new_secret
from ebbtide.delivery.store import Event, Webhook, WebhookChange
from ebbtide.dialects.openai.webhook import SetWebhook
from ebbtide.errors import Forbidden, InvalidRequest, NotFound, Unauthenticated
from ebbtide.page import Page
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

WEBHOOK_CHANNEL: Final = "ebbtide_webhooks"  # an event may be due
EVENT_DAYS: Final = 30
_LOOKUP_SECONDS = 5.0
_PRUNED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Registrar:
    """What setting a webhook works with."""

    database: Database
    settings: Settings
    resolve: Resolve = resolve_host


@dataclass(frozen=True, slots=True)
class ShownWebhook:
    """A webhook, and its secret if that is new: it is never shown again."""

    webhook: Webhook
    secret: str | None = None


async def check_may_set(registrar: Registrar, principal: Principal) -> None:
    """Raises Forbidden when the account's role is below BATCH_MIN_ROLE right now, Unauthenticated when it has ended."""
    async with registrar.database.connection() as conn:
        account = await find_account(conn, principal.account_id)
    if account is None or account.state != "active":
        raise Unauthenticated("Your account is no longer active")
    needed = Role(registrar.settings.batch_min_role)
    if account.role < needed:
        raise Forbidden(refusal(account.role, "set up or change a webhook", needed))


async def set_webhook(registrar: Registrar, principal: Principal, wanted: SetWebhook, now: datetime) -> ShownWebhook:
    """Set the account's webhook up, or change it; what `wanted` leaves out stays.

    Raises Forbidden below BATCH_MIN_ROLE, and InvalidRequest for a URL that nothing may be sent to; nothing is stored
    then. The role is checked before anything is looked up.
    """
    await check_may_set(registrar, principal)
    url = None if wanted.url is None else await _checked(registrar, wanted.url)
    change = WebhookChange(url, new_secret(), bool(wanted.rotate_secret), wanted.enabled)
    async with registrar.database.transaction() as conn:
        webhook = await store.set_webhook(conn, principal.account_id, change, now)
        if webhook is None:
            raise InvalidRequest("url: required, since no webhook is set yet", param="url")
        await notify(conn, WEBHOOK_CHANNEL)
    return ShownWebhook(webhook, change.secret if webhook.secret == change.secret else None)


async def get_webhook(database: Database, principal: Principal) -> Webhook:
    """Raises NotFound when none is set."""
    async with database.connection() as conn:
        webhook = await store.get_webhook(conn, principal.account_id)
    if webhook is None:
        raise _none_set()
    return webhook


async def delete_webhook(database: Database, principal: Principal) -> None:
    """Remove the webhook; what was still to be sent to it is dropped. Raises NotFound when none is set."""
    async with database.transaction() as conn:
        if not await store.delete_webhook(conn, principal.account_id):
            raise _none_set()


async def list_events(database: Database, principal: Principal, after: str | None, limit: int) -> Page[Event]:
    """The account's events, newest first. Raises InvalidRequest when `after` is not one of them."""
    async with database.connection() as conn:
        number = None
        if after is not None:
            number = await store.find_event(conn, principal.account_id, after)
            if number is None:
                raise InvalidRequest("after is not the id of one of your events", param="after")
        events = await store.list_events(conn, principal.account_id, number, limit + 1)
    return Page(events[:limit], len(events) > limit)


async def prune_webhooks(database: Database, now: datetime) -> int:
    """Forget events after 30 days, and the webhooks of deleted accounts; a bounded step, 0 when nothing was left."""
    async with database.transaction() as conn:
        pruned = await store.prune_events(conn, now - timedelta(days=EVENT_DAYS), _PRUNED_AT_ONCE)
        pruned += await store.drop_strays(conn, _PRUNED_AT_ONCE)
        accounts = await store.deleted_accounts(conn, _PRUNED_AT_ONCE)
        for account_id in accounts:
            await store.delete_webhook(conn, account_id)
    return pruned + len(accounts)


async def remove_account_webhook(conn: Connection, account_id: str) -> Step:
    """One bounded step of the removal of an account's webhook and events; a delivery under way is waited for."""
    removed = await store.remove_webhook(conn, account_id)
    if await store.has_webhook(conn, account_id):
        return Step(waits_for=("webhook_delivery",))
    return Step(removed + await store.remove_events(conn, account_id, _PRUNED_AT_ONCE))


async def _checked(registrar: Registrar, url: str) -> str:
    """The URL in its normal form. Raises InvalidRequest."""
    allow_private = registrar.settings.batch_webhook_allow_private_targets
    try:
        async with asyncio.timeout(_LOOKUP_SECONDS):
            target = await check_target(url, registrar.resolve, allow_private=allow_private)
    except TimeoutError:
        raise BadTarget("the name could not be looked up in time") from None
    return str(target.url)


def _none_set() -> NotFound:
    return NotFound("No webhook is set")
