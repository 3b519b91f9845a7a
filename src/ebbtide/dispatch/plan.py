"""Which routes a call may take, and in which order they are tried. Pure but for the random numbers handed in.

Weight 0 keeps a route configured but unused, as an administrator's switch does. Batch work stays on batch-allowed
routes, whatever the weights. A reserve comes after all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from ebbtide.catalog.model import Model, Route
from ebbtide.dispatch.outcome import Failed, Source

OUT_OF_USE: Final = "No route of this model is in use at the moment"


def usable_routes(model: Model, source: Source) -> list[Route]:
    """The routes that are in use for such work, in configured order."""
    return [route for route in model.routes if _usable(route, source)]


def plan_routes(model: Model, source: Source, rng: Random) -> Sequence[Route]:
    """The routes to try, one after the other: a weighted draw without replacement. Empty when none may be used."""
    routes = model.routes
    if len(routes) == 1:
        return routes if _usable(routes[0], source) else ()
    usable = usable_routes(model, source)
    if len(usable) > 1:
        # Sorting by u^(1/w) draws in proportion to the weights (Efraimidis and Spirakis, 2006).
        usable.sort(key=lambda route: (route.reserve, -(rng.random() ** (1.0 / route.weight))))
    return usable


def moved_first(routes: Sequence[Route], first: Callable[[Route], bool]) -> Sequence[Route]:
    """The same order, with those put before all others that `first` says."""
    if len(routes) < 2:
        return routes
    return sorted(routes, key=lambda route: not first(route))


def nothing_planned(model: Model, source: Source) -> Failed:
    """Why a plan came out empty: for good when no route is allowed, for now when all are switched off."""
    if source == "batch" and not model.has_batch_route:
        return Failed(
            kind="no_route",
            status=400,
            code="batch_route_unavailable",
            message="No route of this model may be used for batch work",
            sent=False,
        )
    return nothing_free(OUT_OF_USE)


def nothing_free(message: str, retry_after: float | None = None) -> Failed:
    """No route can take the call at the moment."""
    return Failed("no_route", 503, "service_unavailable", message, sent=False, retry_after=retry_after)


def _usable(route: Route, source: Source) -> bool:
    return route.is_in_use and (source != "batch" or route.batch_allowed)
