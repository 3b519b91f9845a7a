"""/admin/batch/models: how much batch work each model runs, may run and has waiting."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.parts import parse_body
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.batches import model_limits
from ebbtide.batches.model_limits import ModelFigures, list_models
from ebbtide.errors import NotFound


class BatchModel(msgspec.Struct, frozen=True):
    """A model's batch work. `max_concurrency` is its own cap, null where BATCH_MODEL_CONCURRENCY holds, and
    `effective_max_concurrency` the cap in force; 0 pauses the model.

    `running` and `queued` count requests over all gateway processes, `interactive` the interactive ones in flight; what
    a worker holds ready is queued.
    `blocked_reason` tells why nothing starts: `model_queued`, `model_paused` (both with `rest_until`), `model_cap`,
    `yielding`, `no_route_up`. `waiting_since`: since when its deployment has been waiting for capacity.
    """

    model_id: str
    max_concurrency: int | None
    effective_max_concurrency: int
    running: int
    queued: int
    interactive: int
    blocked_reason: str | None
    rest_until: datetime | None
    waiting_since: datetime | None
    object: Literal["batch_model"] = "batch_model"


class BatchModelList(msgspec.Struct, frozen=True):
    """Every model of the gateway, and any other that still has batch requests; by name."""

    data: list[BatchModel]
    object: Literal["list"] = "list"


class ModelLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model's own cap, 0 to pause it; null takes it away."""

    max_concurrency: int | None


async def list_batch_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(BatchModelList([_object(figures) for figures in await _figures(gateway)]))


async def set_model_limit(gateway: Gateway, request: Request, principal: Principal) -> Response:
    limit = parse_body(await read_body(request, MIB), ModelLimit).max_concurrency
    name = request.path_params["model_id"]
    model = gateway.catalog.current.resolve(name)
    model_id = name if model is None else model.id
    if model_id not in {figures.model for figures in await _figures(gateway)}:
        raise NotFound(f"There is no model {name[:200]!r}")
    await model_limits.set_model_limit(gateway.database, model_id, limit, principal.actor, gateway.clock.now())
    [changed] = [figures for figures in await _figures(gateway, model_id) if figures.model == model_id]
    return answer_json(_object(changed))


async def _figures(gateway: Gateway, *more: str) -> list[ModelFigures]:
    names = [*(model.id for model in gateway.catalog.current.models), *more]
    return await list_models(gateway.database, names, gateway.settings.current, gateway.clock.now())


def _object(figures: ModelFigures) -> BatchModel:
    return BatchModel(
        model_id=figures.model,
        max_concurrency=figures.max_concurrency,
        effective_max_concurrency=figures.effective,
        running=figures.running,
        queued=figures.queued,
        interactive=figures.interactive,
        blocked_reason=figures.blocked_reason,
        rest_until=figures.rest_until,
        waiting_since=figures.waiting_since,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/batch/models",
        list_batch_models,
        "List the models with their batch caps and what they run",
        Described(answer=BatchModelList),
    ),
    Admin(
        "PATCH",
        "/admin/batch/models/{model_id:path}",
        set_model_limit,
        "Give a model a batch cap of its own, or take it away",
        Described(request=ModelLimit, answer=BatchModel, errors=(400, 404, 413)),
    ),
)
