"""/admin/overview: where to look first. Read from sums that are kept anyhow and small tables, never items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.batches.backlog import Backlog
from ebbtide.batches.model_limits import ModelFigures, list_models
from ebbtide.dispatch.breaker import CircuitState
from ebbtide.dispatch.health import ProcessHealth, read_health
from ebbtide.records.log_bars import WINDOWS, Bar, Which, read_windows
from ebbtide.records.log_read import Figures

_HOUR = next(window for window in WINDOWS if window.name == "1h")


class SourceTraffic(msgspec.Struct, frozen=True):
    """Requests of one source that ended in the last hour, batch requests by attempt. `cost_usd` leaves out those of
    unknown cost.
    """

    requests: int
    errors: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    cost_unknown_requests: int


class Traffic(msgspec.Struct, frozen=True):
    """The last hour, from `start_time` on, in whole minutes."""

    start_time: datetime
    interactive: SourceTraffic
    batch: SourceTraffic


class ModelLoad(msgspec.Struct, frozen=True):
    """What runs and waits of a model, over all processes, and why none of its batch requests starts, as
    `/admin/batch/models` tells it. `oldest_seconds` is the age of the oldest batch with requests that wait.
    """

    model_id: str
    interactive_in_flight: int
    batch_in_flight: int
    queued: int
    oldest_seconds: float
    blocked_reason: str | None
    rest_until: datetime | None
    waiting_since: datetime | None


class TroubledRoute(msgspec.Struct, frozen=True):
    """A route whose circuit is not closed in `processes` processes, first since `since`."""

    model_id: str
    route_id: str
    state: CircuitState
    since: datetime | None
    processes: int
    last_error: str | None


class RouteName(msgspec.Struct, frozen=True):
    """A route that an administrator switched off."""

    model_id: str
    route_id: str


class OpenAlert(msgspec.Struct, frozen=True):
    """An alert that was raised and is not resolved."""

    kind: Literal["batch_model_waiting"]
    model_id: str


class BatchBacklog(msgspec.Struct, frozen=True):
    """Unfinished batches by phase, workers that live, and what waits to be sealed or delivered."""

    workers: int
    validating: int
    open: int
    sealing: int
    oldest_sealing_seconds: float
    webhook_events: int
    oldest_webhook_seconds: float


class Deployment(msgspec.Struct, frozen=True):
    """What the database tells of the whole deployment. `backlog` null: it could not be read lately."""

    traffic: Traffic
    models: list[ModelLoad]
    open_circuits: list[TroubledRoute]
    routes_off: list[RouteName]
    resting_models: list[str]
    alerts: list[OpenAlert]
    backlog: BatchBacklog | None


class Overview(msgspec.Struct, frozen=True):
    """Where to look first. `checks` and `processes` are those of `/health/ready`; `deployment` null: the database
    cannot be reached.
    """

    at: datetime
    database_reachable: bool
    checks: dict[str, str]
    processes: dict[str, str]
    deployment: Deployment | None
    object: Literal["overview"] = "overview"


async def get_overview(gateway: Gateway, request: Request, principal: Principal) -> Response:
    checks, now = await gateway.pulse.look(), gateway.clock.now()
    reachable = checks["database"] == "ok"
    beats = gateway.pulse.family()
    return answer_json(
        Overview(
            at=now,
            database_reachable=reachable,
            checks=checks,
            processes={str(place): beat.trouble(time.monotonic()) or "ok" for place, beat in beats.items()},
            deployment=await _deployment(gateway, now) if reachable else None,
        )
    )


async def _deployment(gateway: Gateway, now: datetime) -> Deployment:
    models, settings = gateway.catalog.current.models, gateway.settings.current
    ((_, bars),) = await read_windows(gateway.database, [_HOUR], now, Which("interactive"))
    figures = await list_models(gateway.database, [model.id for model in models], settings, now)
    health = await read_health(gateway.database)
    backlog = await gateway.backlog.current()
    names = [(model.id, route.id) for model in models for route in model.routes]
    troubled = (_troubled(health.get(name, ())) for name in names)
    return Deployment(
        traffic=_traffic(bars),
        models=_loads(figures, backlog),
        open_circuits=[route for route in troubled if route is not None],
        routes_off=[RouteName(model.id, route.id) for model in models for route in model.routes if not route.enabled],
        resting_models=[one.model for one in figures if one.rest_until is not None or one.effective == 0],
        alerts=[OpenAlert("batch_model_waiting", model) for model in (backlog.waiting_models if backlog else ())],
        backlog=None if backlog is None else _backlog(backlog),
    )


def _traffic(bars: Sequence[Bar]) -> Traffic:
    total = bars[0]
    for bar in bars[1:]:
        total = total.plus(bar)
    return Traffic(bars[0].start, _source(total.asked), _source(total.batch))


def _source(figures: Figures) -> SourceTraffic:
    return SourceTraffic(
        requests=figures.requests,
        errors=figures.errors,
        prompt_tokens=figures.input_tokens,
        cached_tokens=figures.cached_tokens,
        completion_tokens=figures.output_tokens,
        cost_usd=float(figures.cost_usd),
        cost_unknown_requests=figures.cost_unknown,
    )


def _loads(figures: Sequence[ModelFigures], backlog: Backlog | None) -> list[ModelLoad]:
    oldest = {queue.model: queue.oldest for queue in backlog.queues} if backlog else {}
    return [
        ModelLoad(
            model_id=one.model,
            interactive_in_flight=one.interactive,
            batch_in_flight=one.running,
            queued=one.queued,
            oldest_seconds=oldest.get(one.model, 0.0),
            blocked_reason=one.blocked_reason,
            rest_until=one.rest_until,
            waiting_since=one.waiting_since,
        )
        for one in figures
    ]


def _troubled(found: Sequence[ProcessHealth]) -> TroubledRoute | None:
    """What the processes find of one route, where its circuit is not closed in any."""
    troubled = [one for one in found if one.state != "closed"]
    if not troubled:
        return None
    first = min(troubled, key=lambda one: one.opened_at or one.seen_at)
    state: CircuitState = "open" if any(one.state == "open" for one in troubled) else "half_open"
    return TroubledRoute(first.model, first.route, state, first.opened_at, len(troubled), first.last_error)


def _backlog(backlog: Backlog) -> BatchBacklog:
    return BatchBacklog(
        workers=backlog.workers,
        validating=backlog.batches.get("validating", 0),
        open=backlog.batches.get("open", 0),
        sealing=backlog.batches.get("sealing", 0),
        oldest_sealing_seconds=backlog.oldest_sealing,
        webhook_events=backlog.webhook_events,
        oldest_webhook_seconds=backlog.oldest_webhook,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/overview",
        get_overview,
        "Tell where to look first: the whole deployment",
        Described(answer=Overview),
    ),
)
