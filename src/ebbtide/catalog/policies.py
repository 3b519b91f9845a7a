"""What administrators choose of routes, laid over the catalog of the moment: whether batch work may use one, whether
anything may, and its weight.

A choice belongs to a model's canonical id and a route id, and is kept while neither is configured. As to batch work,
routes of embedding models follow their locality and have none. Each change makes a whole new catalog in which whatever
did not change is the same object as before, for routes are told apart by identity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from ebbtide.catalog.catalog import EMPTY, Catalog
from ebbtide.catalog.model import Model, Route
from ebbtide.catalog.source import CatalogSource
from ebbtide.duties import Duty
from ebbtide.errors import InvalidRequest
from ebbtide.records.audit import Deed, add_audit
from ebbtide.storage.notify import Listener, notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.catalog", "policies.sql")
POLICIES_CHANNEL: Final = "ebbtide_route_policies"
POLL_SECONDS: Final = 4.0
_READ_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a route; None: nothing, it is as configured."""

    batch_allowed: bool | None = None
    enabled: bool | None = None
    weight: float | None = None

    def laid_over(self, model: Model, route: Route) -> Route:
        """The configured route with the choice in force."""
        allowed = None if model.type == "embedding" else self.batch_allowed
        weight, configured = (route.weight, None) if self.weight is None else (self.weight, route.weight)
        enabled = self.enabled is not False
        return replace(route, batch_choice=allowed, enabled=enabled, weight=weight, configured_weight=configured)


Choices = Mapping[tuple[str, str], Choice]
"""By model id and route id."""


class PolicySource:
    """Another source's models with the stored choices on their routes; `current` is what all rooms should see.

    `off` are the routes that are out of use at the moment, by model and route id.
    """

    def __init__(self, source: CatalogSource) -> None:
        self._source = source
        self._choices: Choices = {}
        self._plain = EMPTY
        self._chosen = EMPTY
        self._made: dict[Route, tuple[Choice, Route]] = {}
        self.off: frozenset[tuple[str, str]] = frozenset()
        self._refreshing = asyncio.Lock()

    @property
    def current(self) -> Catalog:
        if self._source.current is not self._plain:
            self._lay(self._source.current, self._choices)
        return self._chosen

    @property
    def notices(self) -> tuple[str, ...]:
        return self._source.notices

    async def start(self) -> None:
        await self._source.start()

    def duties(self) -> Sequence[Duty]:
        return self._source.duties()

    async def refresh(self, database: Database) -> None:
        """Put in force what is stored now. Raises Unavailable, and the choices stay."""
        async with self._refreshing:  # so that an older answer never replaces a newer one
            async with database.connection() as conn:
                choices = await _read_choices(conn)
            if choices != self._choices:
                self._lay(self._source.current, choices)

    def following(self, database: Database, listener: Listener) -> Duty:
        """Refreshing whenever a change is told, and every few seconds in case it is not."""

        async def refresh(now: datetime) -> int:
            await self.refresh(database)
            return 0

        return Duty("route policies", refresh, POLL_SECONDS, listener.subscribe(POLICIES_CHANNEL), limit=_READ_SECONDS)

    def _lay(self, plain: Catalog, choices: Choices) -> None:
        """Make the catalog of `plain` and `choices`; a route that is as it was stays the same object."""
        made: dict[Route, tuple[Choice, Route]] = {}

        def chosen(model: Model, route: Route) -> Route:
            choice = choices.get((model.id, route.id))
            if choice is None:
                return route
            before = self._made.get(route)
            same = before is not None and before[0] == choice
            made[route] = before if before is not None and same else (choice, choice.laid_over(model, route))
            return made[route][1]

        models: list[Model] = []
        for model in plain.models:
            routes = tuple(chosen(model, route) for route in model.routes)
            models.append(model if routes == model.routes else replace(model, routes=routes))
        self.off = frozenset((m.id, route.id) for m in models for route in m.routes if not route.is_in_use)
        self._plain, self._choices, self._made, self._chosen = (
            plain,
            choices,
            made,
            replace(Catalog.of(models, is_settled=plain.is_settled), auto=plain.auto),
        )


async def _read_choices(conn: Connection) -> Choices:
    allowed = {
        (row["model_id"], row["route_id"]): row["batch_allowed"] for row in await conn.fetch(_Q["list_policies"])
    }
    changed = {(row["model_id"], row["route_id"]): row for row in await conn.fetch(_Q["list_overrides"])}
    return {
        name: Choice(allowed.get(name), *((row["enabled"], row["weight"]) if (row := changed.get(name)) else ()))
        for name in allowed | changed
    }


@dataclass(frozen=True, slots=True)
class RouteChoice:
    """A choice for one route: True allows batch work on it, False forbids it, None follows its locality."""

    model: Model
    route: Route
    batch_allowed: bool | None


async def choose_route(database: Database, choice: RouteChoice, actor: str, now: datetime) -> None:
    """Store a choice, with its row in the audit log. Raises InvalidRequest for a route of an embedding model."""
    model_id, route_id, allowed = choice.model.id, choice.route.id, choice.batch_allowed
    if choice.model.type == "embedding":
        raise InvalidRequest(
            f"Routes of an embedding model follow their locality; '{model_id}' has no choice for each route",
            param="model_id",
        )
    async with database.transaction() as conn:
        await conn.execute(_Q["lock_policies"])
        before: bool | None = await conn.fetchval(_Q["find_policy"], model_id, route_id)
        if before == allowed:
            return
        await _store(conn, choice, actor, now)
        detail = {"old": before, "new": allowed}
        await add_audit(conn, Deed(actor, "route.batch_choice", f"{model_id}/{route_id}", detail=detail), now)
        await notify(conn, POLICIES_CHANNEL)


async def _store(conn: Connection, choice: RouteChoice, actor: str, now: datetime) -> None:
    names = (choice.model.id, choice.route.id)
    if choice.batch_allowed is None:
        await conn.execute(_Q["remove_policy"], *names)
    else:
        await conn.execute(_Q["put_policy"], *names, choice.batch_allowed, now, actor)
