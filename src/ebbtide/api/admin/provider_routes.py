"""/admin/routing: the routes of every model: which of them batch work may use, which are switched off, their weights;
in force here at once.
"""

from __future__ import annotations

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
from ebbtide.catalog import overrides, policies
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import DeploymentType, Kind, Model, ModelType, Route
from ebbtide.catalog.overrides import Change
from ebbtide.catalog.policies import RouteChoice
from ebbtide.errors import NotFound


class ProviderRoute(msgspec.Struct, frozen=True):
    """A model at an upstream. `host` is the server's, null for the built-in stand-in.

    `batch_allowed` is whether batch work may use it now: `batch_allowed_choice` where an administrator chose (true or
    false), else `batch_allowed_default`, which follows the locality. `enabled` false: an administrator switched it off.
    `weight` is in force: `weight_choice` where an administrator chose, else `weight_default`, as configured. A route of
    weight 0 is configured and not in use.
    """

    model_id: str
    model_type: ModelType
    route_id: str
    kind: Kind
    host: str | None
    enabled: bool
    weight: float
    weight_default: float
    weight_choice: float | None
    deployment_type: DeploymentType
    batch_allowed: bool
    batch_allowed_default: bool
    batch_allowed_choice: bool | None
    object: Literal["provider_route"] = "provider_route"


class ProviderRouteList(msgspec.Struct, frozen=True):
    """Every route of every model, in configured order."""

    data: list[ProviderRoute]
    object: Literal["list"] = "list"


class BatchChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """True allows batch work on the route, false forbids it, null lets it follow the locality again."""

    batch_allowed: bool | None


class RouteChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to change; what is left out stays, null is as configured. `enabled` false: nobody's calls go there."""

    enabled: bool | msgspec.UnsetType | None = msgspec.UNSET
    weight: float | msgspec.UnsetType | None = msgspec.UNSET


async def list_provider_routes(gateway: Gateway, request: Request, principal: Principal) -> Response:
    catalog = gateway.catalog.current
    return answer_json(
        ProviderRouteList([provider_route(model, route) for model in catalog.models for route in model.routes])
    )


async def choose_route(gateway: Gateway, request: Request, principal: Principal) -> Response:
    allowed = parse_body(await read_body(request, MIB), BatchChoice).batch_allowed
    model, route = find_route(gateway.catalog.current, request.path_params["model_and_route"])
    choice = RouteChoice(model, route, allowed)
    await policies.choose_route(gateway.database, choice, principal.actor, gateway.clock.now())
    await gateway.catalog.refresh(gateway.database)
    return answer_json(provider_route(*find_route(gateway.catalog.current, f"{model.id}/{route.id}")))


async def change_route(gateway: Gateway, request: Request, principal: Principal) -> Response:
    wanted = parse_body(await read_body(request, MIB), RouteChange)
    sent = {"enabled": wanted.enabled, "weight": wanted.weight}
    given = {name: value for name, value in sent.items() if not isinstance(value, msgspec.UnsetType)}
    model, route = find_route(gateway.catalog.current, request.path_params["model_and_route"])
    change = Change(model.id, route.id, given)
    await overrides.change_route(gateway.database, change, principal.actor, gateway.clock.now())
    await gateway.catalog.refresh(gateway.database)
    return answer_json(provider_route(*find_route(gateway.catalog.current, f"{model.id}/{route.id}")))


def find_route(catalog: Catalog, path: str) -> tuple[Model, Route]:
    """The route that `<model>/<route>` names; both ids may hold slashes, and the longest model counts.

    Raises NotFound.
    """
    parts = path.split("/")
    for end in range(len(parts) - 1, 0, -1):
        model = catalog.resolve("/".join(parts[:end]))
        for route in model.routes if model is not None else ():
            if model is not None and route.id == "/".join(parts[end:]):
                return model, route
    raise NotFound(f"No model of this gateway has such a route: {path[:400]}")


def provider_route(model: Model, route: Route) -> ProviderRoute:
    own = route.configured_weight is not None
    return ProviderRoute(
        model_id=model.id,
        model_type=model.type,
        route_id=route.id,
        kind=route.kind,
        host=route.host,
        enabled=route.enabled,
        weight=route.weight,
        weight_default=route.weight if route.configured_weight is None else route.configured_weight,
        weight_choice=route.weight if own else None,
        deployment_type=route.deployment_type,
        batch_allowed=route.batch_allowed,
        batch_allowed_default=route.is_local,
        batch_allowed_choice=route.batch_choice,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/routing/provider-routes",
        list_provider_routes,
        "List the routes of every model",
        Described(answer=ProviderRouteList),
    ),
    Admin(
        "PATCH",
        "/admin/routing/provider-route-batch/{model_and_route:path}",
        choose_route,
        "Allow or forbid batch work on a route, named `{model_id}/{route_id}`",
        Described(request=BatchChoice, answer=ProviderRoute, errors=(400, 404, 413)),
    ),
    Admin(
        "PATCH",
        "/admin/routing/provider-routes/{model_and_route:path}",
        change_route,
        "Switch a route, named `{model_id}/{route_id}`, off or on, or change its weight",
        Described(request=RouteChange, answer=ProviderRoute, errors=(400, 404, 413)),
    ),
)
