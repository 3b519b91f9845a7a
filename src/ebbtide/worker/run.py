"""Running one item: its line, its model, the call. A mistake of ours is an outcome too, and so is being cut off."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from ebbtide.catalog.source import CatalogSource
from ebbtide.dialects.lines import line_body
from ebbtide.dialects.values import named_model
from ebbtide.dispatch.course import Departure
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Call, Failed, Outcome
from ebbtide.errors import Unavailable
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.worker.lanes import Work
from ebbtide.worker.lines import LineCache

log = structlog.get_logger(__name__)
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: `outcome` is None when nothing was sent; `was_cut_off`: its task was cancelled."""

    outcome: Outcome | None
    was_cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Runner:
    """What a run needs."""

    lines: LineCache
    catalog: CatalogSource
    dispatcher: Dispatcher
    settings: SettingsSource

    async def run(self, work: Work) -> Ended:
        """Raises nothing: a cancellation ends the run, and the caller its task. Waits while the database is away."""
        departure = Departure()
        try:
            call = await self._prepare(work)
            return Ended(call if isinstance(call, Failed) else await self.dispatcher.call(call, departure))
        except asyncio.CancelledError:
            return Ended(interrupted(departure.route) if departure.has_begun else None, was_cut_off=True)
        except Exception as error:
            log.error("item_broke", batch=work.batch.id, item=work.item.id, error=type(error).__name__, exc_info=error)
            return Ended(broken("The gateway could not run this request", departure))

    async def _prepare(self, work: Work) -> Call | Failed:
        """The call that a work is, or why there can be none."""
        model = self.catalog.current.usable(work.model, work.role)
        if model is None:
            return Failed("no_route", 404, "model_not_found", f"Model '{work.model}' not found", sent=False)
        body = line_body(await self._line(work), work.model)
        return Call(
            target=work.batch.target,
            model=model,
            body=body,
            requested=named_model(body),
            source="batch",
            version=work.batch.anthropic_version,
            max_bytes=self.settings.current.batch_max_result_kb * 1024,
        )

    async def _line(self, work: Work) -> memoryview:
        while True:
            try:
                return await self.lines.line(work)
            except Unavailable:
                await asyncio.sleep(_PAUSE)


def broken(message: str, departure: Departure) -> Failed:
    """The outcome of a run that this process could not bring to an end."""
    return Failed("internal", 500, "upstream_error", message, sent=departure.has_begun, route=departure.route)


def interrupted(route: str | None) -> Failed:
    """The outcome of a run that was cut off when it may have been sent, because its worker stops; it may pass."""
    message = "The worker stopped before the answer came"
    return Failed("reset", 502, "upstream_error", message, sent=True, route=route)
