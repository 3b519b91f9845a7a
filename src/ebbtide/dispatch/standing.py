"""How each route stands in this process: its circuit, its limit, its keys, and what runs on it now.

Kept by model and route id, so that it outlives a change of the configuration that left the route in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import structlog

from ebbtide.catalog.model import Model, Route
from ebbtide.dispatch.breaker import Breaker, BreakerRules, CircuitState
from ebbtide.dispatch.keys import KeyPool
from ebbtide.dispatch.limits import Limiter
from ebbtide.dispatch.outcome import TIMED_OUT, Failed, FailureKind, trips
from ebbtide.dispatch.rules import Rules

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Pass:
    """A call's leave to use a route, with the key to use. `probe`: the call decides whether an open circuit closes."""

    key: str | None
    probe: bool
    began_at: float


@dataclass(frozen=True, slots=True)
class RouteHealth:
    """How one route stands now. `opened` and `closed` count its circuit's moves, `limit` is the one in force.

    `open_for`: since how many seconds its circuit has not been closed.
    """

    model: str
    route: str
    state: CircuitState
    open_for: float | None
    failures: int
    opened: int
    closed: int
    in_flight: int
    limit: int | None
    keys: int
    keys_resting: int
    last_error: FailureKind | None


class Standing:
    """One route's. `on_room` is called whenever a call that was counted has ended."""

    def __init__(self, model_id: str, route: Route, on_room: Callable[[str], None]) -> None:
        self.model_id = model_id
        self.route_id = route.id
        self.breaker = Breaker()
        self.limiter = Limiter(route.max_concurrency)
        self.keys = KeyPool(route.api_keys)
        self.last_error: FailureKind | None = None
        self.opened_at: float | None = None
        self._on_room = on_room
        self._keys_of = route.api_keys

    def follow(self, route: Route) -> None:
        """Take over what the configuration says now."""
        self.limiter.allow(route.max_concurrency)
        if route.api_keys != self._keys_of:
            self.keys, self._keys_of = KeyPool(route.api_keys), route.api_keys

    def ready_in(self, now: float) -> float:
        """Seconds until its circuit and its keys let a call through; 0 when they do now."""
        breaker = self.breaker
        if breaker.ready_at is None:
            return self.keys.ready_in(now)
        if not breaker.may_pass(now):
            return max(breaker.ready_at - now, 1.0)
        return self.keys.ready_in(now)

    def is_free(self, now: float) -> bool:
        """Whether a call may go to it now: its circuit and its keys let it through, and there is room."""
        return self.limiter.has_room and not self.ready_in(now)

    def free(self, now: float) -> int | None:
        """How many more calls may go to it now, less than 0 when some run beyond its limit; None when it has none."""
        if self.ready_in(now):
            return 0
        if not self.breaker.is_closed:
            return int(self.limiter.has_room)
        return None if self.limiter.limit is None else self.limiter.limit - self.limiter.in_flight

    def waits_for_probe(self, now: float) -> bool:
        """Whether the next call to it will tell whether its circuit closes."""
        return not self.breaker.is_closed and self.breaker.may_pass(now)

    def enter(self, now: float) -> Pass:
        """A call goes to the route, which is ready and has room."""
        self.limiter.in_flight += 1
        return Pass(self.keys.take(now), self.breaker.enter(), now)

    def leave(self, entered: Pass, failed: Failed | None, now: float, rules: Callable[[], Rules]) -> None:
        """The call has ended, well (None) or not. A circuit that opens or closes is told to the log."""
        was_closed = self.breaker.is_closed
        self._note(entered, failed, now, rules)
        if was_closed != self.breaker.is_closed:
            self.opened_at = now if was_closed else None
            tell = log.warning if was_closed else log.info
            tell("circuit_opened" if was_closed else "circuit_closed", route=self.route_id, model=self.model_id)
        self._free()

    def _note(self, entered: Pass, failed: Failed | None, now: float, rules: Callable[[], Rules]) -> None:
        if failed is not None:
            self._note_failure(entered, failed, now, rules().breaker)
        else:
            self.breaker.succeed(probe=entered.probe)
            self.limiter.served()
            self.keys.served(entered.key)

    def break_off(self, entered: Pass) -> None:
        """The call was broken off by us before it told anything."""
        self.breaker.abandon(probe=entered.probe)
        self._free()

    def _free(self) -> None:
        self.limiter.in_flight -= 1
        self._on_room(self.model_id)

    def _note_failure(self, entered: Pass, failed: Failed, now: float, rules: BreakerRules) -> None:
        self.last_error = failed.kind
        if failed.status == 429:
            self.limiter.limited(entered.began_at, now)
            self.keys.limited(entered.key, now, failed.retry_after)
        elif failed.status == 401:
            self.keys.refused(entered.key, now)
        if trips(failed):
            self.breaker.fail(now, rules, probe=entered.probe)
        elif failed.sent and failed.kind not in TIMED_OUT:
            self.breaker.succeed(probe=entered.probe)
        else:
            self.breaker.abandon(probe=entered.probe)

    def health(self, now: float) -> RouteHealth:
        breaker = self.breaker
        return RouteHealth(
            model=self.model_id,
            route=self.route_id,
            state=breaker.state(now),
            open_for=None if self.opened_at is None else now - self.opened_at,
            failures=breaker.failures,
            opened=breaker.opened,
            closed=breaker.closed,
            in_flight=self.limiter.in_flight,
            limit=self.limiter.limit,
            keys=len(self.keys),
            keys_resting=self.keys.resting(now),
            last_error=self.last_error,
        )


class Standings:
    """Every route's."""

    def __init__(self, on_room: Callable[[str], None]) -> None:
        self._on_room = on_room
        self._by_route: WeakKeyDictionary[Route, Standing] = WeakKeyDictionary()
        self._by_name: dict[tuple[str, str], Standing] = {}

    def of(self, model: Model, route: Route) -> Standing:
        standing = self._by_route.get(route)
        if standing is None:
            name = (model.id, route.id)
            standing = self._by_name.get(name)
            if standing is None:
                standing = self._by_name[name] = Standing(model.id, route, self._on_room)
            else:
                standing.follow(route)
            self._by_route[route] = standing
        return standing

    def retain(self, models: Iterable[Model]) -> None:
        """Forget the routes that none of the models has any more, once nothing runs on them."""
        configured = {(model.id, route.id) for model in models for route in model.routes}
        for name, standing in list(self._by_name.items()):
            if name not in configured and not standing.limiter.in_flight:
                del self._by_name[name]

    def __iter__(self) -> Iterator[Standing]:
        return iter(self._by_name.values())
