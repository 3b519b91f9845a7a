"""Alerts for operators: to the log, to the metrics, and to ALERT_WEBHOOK_URL in the form that Slack's webhooks take.

So far there is one kind: a model's batch requests wait for its deployment's capacity. Each is raised once and resolved
once, by whichever process changes the model's row first. No prompt or secret is in one, and the URL never in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec
import structlog

from ebbtide.batches import waiting
from ebbtide.batches.waiting import WaitingModel
from ebbtide.delivery.post import Delivered, Letter, Poster
from ebbtide.records.metrics import ALERTS
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.pool import Database

log = structlog.get_logger(__name__)

WAITING: Final = "Batch model waiting for capacity"
_KIND: Final = "batch_model_waiting"
_PAUSES: Final = (1.0, 5.0, 15.0)  # seconds before the second, third and fourth try


@dataclass(frozen=True, slots=True)
class Alert:
    """Something an operator should know, or that it is over."""

    kind: str
    event: Literal["raised", "resolved"]
    title: str
    model: str
    text: str


class Alerts:
    """Looks for what has to be reported. `settings` gives those in force; `pauses` are between tries to post."""

    def __init__(
        self,
        database: Database,
        settings: Callable[[], Settings],
        poster: Poster,
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        self._database = database
        self._settings = settings
        self._poster = poster
        self._pauses = pauses

    async def run_once(self, now: datetime) -> int:
        """Raise and resolve what is due; always rests afterwards. Raises Unavailable."""
        alerts = await self._change(now)
        for alert in alerts:
            log.warning(f"alert_{alert.event}", kind=alert.kind, title=alert.title, model=alert.model)
            ALERTS.labels(alert.kind, alert.event).inc()
        await asyncio.gather(*map(self._post, alerts))
        return 0

    async def _change(self, now: datetime) -> list[Alert]:
        hours = self._settings().batch_queued_alert_hours
        async with self._database.transaction() as conn:
            resolved = await waiting.resolve_waiting(conn)
            await waiting.forget_waiting(conn)
            raised = await waiting.raise_waiting(conn, now - timedelta(hours=hours), now) if hours else []
        return [*map(_over, resolved), *(_waits(found, now) for found in raised)]

    async def _post(self, alert: Alert) -> None:
        url = self._settings().alert_webhook_url
        if not url:
            return
        body = msgspec.json.encode({"text": f"*{_plain(alert.title)}*\n{_plain(alert.text)}"})
        letter = Letter(url, {}, body, allow_private=True)
        answer = await self._poster.post(letter)
        for pause in self._pauses:
            if isinstance(answer, Delivered):
                return
            await asyncio.sleep(pause)
            answer = await self._poster.post(letter)
        if not isinstance(answer, Delivered):
            log.error("alert_not_posted", kind=alert.kind, model=alert.model, reason=answer.words)


def _waits(found: WaitingModel, now: datetime) -> Alert:
    hours = (now - found.since).total_seconds() / 3600
    since = found.since.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = f"The deployment of {found.model} has been waiting for capacity since {since} ({hours:.0f} hours)."
    return Alert(_KIND, "raised", WAITING, found.model, f"{text} Its batch requests wait.")


def _over(model: str) -> Alert:
    return Alert(_KIND, "resolved", f"Resolved: {WAITING}", model, f"{model} serves batch requests again.")


def _plain(text: str) -> str:
    """Text as it is, for a receiver that takes &, < and > for markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
