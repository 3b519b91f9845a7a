"""/admin/models: the models as configured, without secrets, and how their routes stand in every process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.admin.provider_routes import ProviderRoute, provider_route
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.parts import RoleName
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.catalog.model import Model, ModelType, Pricing, Route
from ebbtide.dispatch.breaker import CircuitState
from ebbtide.dispatch.health import HealthByRoute, ProcessHealth, read_health
from ebbtide.errors import NotFound


class ProcessHealthObject(msgspec.Struct, frozen=True):
    """How one process found a route at `seen_at`. `opened_at`: since when its circuit there has not been closed.

    `failures` are those in a row; `limit` is how many calls it lets run there at once now, null for any number.
    """

    process: str
    state: CircuitState
    opened_at: datetime | None
    failures: int
    in_flight: int
    limit: int | None
    keys: int
    keys_resting: int
    last_error: str | None
    seen_at: datetime


class RouteHealthObject(msgspec.Struct, frozen=True):
    """How a route stands: `closed` where every process lets calls through, `open` where none does, `half_open` where a
    call is to try it, `mixed` where processes differ. `in_flight` is over all of them.
    """

    state: Literal["closed", "open", "half_open", "mixed"]
    in_flight: int
    processes: list[ProcessHealthObject]


class ModelRoute(msgspec.Struct, frozen=True):
    """A route of a model. `upstream_model` is the model's name there; `health` null: no process has used it lately."""

    route: ProviderRoute
    upstream_model: str
    reserve: bool
    max_concurrency: int | None
    priority_scheduling: bool
    api_keys: int
    health: RouteHealthObject | None


class ModelPrices(msgspec.Struct, frozen=True):
    """USD per million tokens; batch requests are charged that times the model's `batch_price_factor`."""

    input: float
    output: float
    cached_input: float
    cache_write: float


class AdminModel(msgspec.Struct, frozen=True):
    """A model as configured, with the choices of administrators in force."""

    id: str
    aliases: list[str]
    type: ModelType
    min_role: RoleName
    context_length: int | None
    max_output_tokens: int | None
    prices: ModelPrices
    batch_price_factor: float
    hedge_after: float | None
    routes: list[ModelRoute]
    object: Literal["model"] = "model"


class AdminModelList(msgspec.Struct, frozen=True):
    """Every model, in configured order, and the models that automatic names choose from."""

    data: list[AdminModel]
    auto: dict[str, list[str]]
    object: Literal["list"] = "list"


async def list_admin_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    catalog, health = gateway.catalog.current, await read_health(gateway.database)
    auto = {name: list(ids) for name, ids in catalog.auto.items()}
    return answer_json(AdminModelList([_model(model, health) for model in catalog.models], auto))


async def get_admin_model(gateway: Gateway, request: Request, principal: Principal) -> Response:
    name = request.path_params["model_id"]
    model = gateway.catalog.current.resolve(name)
    if model is None:
        raise NotFound(f"There is no model {name[:200]!r}")
    return answer_json(_model(model, await read_health(gateway.database)))


def _model(model: Model, health: HealthByRoute) -> AdminModel:
    return AdminModel(
        id=model.id,
        aliases=list(model.aliases),
        type=model.type,
        min_role=model.min_role.value,
        context_length=model.context_length,
        max_output_tokens=model.max_output_tokens,
        prices=_prices(model.pricing),
        batch_price_factor=float(model.batch_price_factor),
        hedge_after=model.hedge_after,
        routes=[_route(model, route, health.get((model.id, route.id), ())) for route in model.routes],
    )


def _prices(pricing: Pricing) -> ModelPrices:
    return ModelPrices(
        float(pricing.input), float(pricing.output), float(pricing.cached_input), float(pricing.cache_write)
    )


def _route(model: Model, route: Route, found: Sequence[ProcessHealth]) -> ModelRoute:
    return ModelRoute(
        route=provider_route(model, route),
        upstream_model=route.model,
        reserve=route.reserve,
        max_concurrency=route.max_concurrency,
        priority_scheduling=route.priority_scheduling,
        api_keys=len(route.api_keys),
        health=_health(found) if found else None,
    )


def _health(found: Sequence[ProcessHealth]) -> RouteHealthObject:
    states = {one.state for one in found}
    return RouteHealthObject(
        state=states.pop() if len(states) == 1 else "mixed",
        in_flight=sum(one.in_flight for one in found),
        processes=[_process(one) for one in found],
    )


def _process(one: ProcessHealth) -> ProcessHealthObject:
    return ProcessHealthObject(
        process=one.process,
        state=one.state,
        opened_at=one.opened_at,
        failures=one.failures,
        in_flight=one.in_flight,
        limit=one.most,
        keys=one.keys,
        keys_resting=one.keys_resting,
        last_error=one.last_error,
        seen_at=one.seen_at,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/models",
        list_admin_models,
        "List the models as configured, and how their routes stand",
        Described(answer=AdminModelList),
    ),
    Admin(
        "GET",
        "/admin/models/{model_id:path}",
        get_admin_model,
        "Get a model as configured, and how its routes stand",
        Described(answer=AdminModel, errors=(404,)),
    ),
)
