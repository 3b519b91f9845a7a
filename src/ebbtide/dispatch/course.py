"""One call's course over its routes: which one is next, what its failures cost, and what is reported in the end.

The next route is tried for what may pass, within the time that the call as a whole may take; never at an endpoint that
may already have begun to generate. A refusal (401, 429) proves that it has not: there the pool's next key is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import msgspec

from ebbtide.catalog.model import Route
from ebbtide.dispatch.outcome import (
    NO_OTHERS,
    Call,
    Failed,
    Others,
    Timeouts,
    began_nothing,
    may_fail_over,
)
from ebbtide.dispatch.plan import OUT_OF_USE, nothing_free
from ebbtide.dispatch.standing import Pass, Standing


@dataclass(slots=True)
class Departure:
    """What of a call has been handed to the network: before that, nobody can have run it. `calls` counts the upstream
    calls made, `route` is where the last one went.
    """

    calls: int = 0
    route: str | None = None

    @property
    def has_begun(self) -> bool:
        return self.calls > 0

    def begin(self, route: str) -> None:
        """One more upstream call is made."""
        self.calls += 1
        self.route = route


@dataclass(frozen=True, slots=True)
class Way:
    """A call's turn at one route: entered, and to be left again."""

    route: Route
    standing: Standing
    entered: Pass
    timeouts: Timeouts


class Course:
    """What is left to try of `routes`. `ends_at` is when the time of the call as a whole is over."""

    def __init__(
        self, call: Call, routes: Sequence[Route], timeouts: Timeouts, stand: Callable[[Route], Standing], now: float
    ) -> None:
        self.call = call
        self.ends_at = now + timeouts.total
        self.departure = Departure()
        self._began_at = now
        self._left = list(routes)
        self._timeouts = timeouts
        self._stand = stand
        self._keys_tried: dict[str, int] = {}
        self._failed: list[Failed] = []
        self._lost = 0

    @property
    def has_failed(self) -> bool:
        return bool(self._failed)

    def next(self, now: float) -> Way | None:
        """Enter the first route that is ready and has room; None when none is, or when time is up."""
        if now >= self.ends_at and self.has_failed:
            return None
        for route in self._left:
            standing = self._stand(route)
            if standing.is_free(now):
                timeouts = self._timeouts
                if now > self._began_at:
                    timeouts = msgspec.structs.replace(timeouts, total=max(self.ends_at - now, 0.001))
                return Way(route, standing, standing.enter(now), timeouts)
        return None

    def ready_in(self, now: float) -> float | None:
        """Seconds until the circuit and keys of a route that is left let a call through; None when none is left."""
        return min((self._stand(route).ready_in(now) for route in self._left), default=None)

    def pass_over(self, off: Container[tuple[str, str]]) -> None:
        """Go nowhere that is out of use by now; `off` by model and route id."""
        self._left = [route for route in self._left if (self.call.model.id, route.id) not in off]

    def take_off(self, way: Way) -> None:
        """Another call of this request is to go elsewhere than where `way` goes."""
        self._left = [route for route in self._left if _endpoint(route) != _endpoint(way.route)]

    def note(self, way: Way, failed: Failed) -> bool:
        """One upstream call has failed; returns whether another may be made."""
        self._failed.append(failed)
        if not began_nothing(failed):
            self.take_off(way)
        elif not self._has_another_key(way, failed):
            self._left = [route for route in self._left if route is not way.route]
        return may_fail_over(failed, self.call.source)

    def lose(self) -> None:
        """One upstream call was broken off because another answered first: what it cost is not known."""
        self._lost += 1

    def others(self, told: Failed | None = None) -> Others:
        """What the calls noted so far took, but for the one that is told of."""
        failed = [one for one in self._failed if one is not told]
        if not failed and not self._lost:
            return NO_OTHERS
        used = tuple(one.usage for one in failed if one.usage is not None)
        unknown = bool(self._lost) or any(one.cost_unknown for one in failed)
        return Others(len(failed) + self._lost, used, unknown)

    def report(self, now: float) -> Failed:
        """What the caller is told when nothing is left to try: the first failure, unless a later one is final.

        That a route cannot carry the request counts only where no other can. Where nothing was tried, nothing was free.
        """
        if not self._failed or (self._left and all(one.kind == "unsupported" for one in self._failed)):
            return self._not_free(now)
        told = next((one for one in self._failed if not self._may_pass(one)), None) or next(
            (one for one in self._failed if one.kind != "unsupported"), self._failed[0]
        )
        sent = any(one.sent for one in self._failed)
        return replace(told, sent=sent, others=self.others(told))

    def _not_free(self, now: float) -> Failed:
        wait = self.ready_in(now)
        if wait is None:
            return nothing_free(OUT_OF_USE)
        if not wait:
            return nothing_free("All servers of this model are busy", 1.0)
        return nothing_free("No server of this model is well at the moment", wait)

    def _may_pass(self, failed: Failed) -> bool:
        return failed.kind == "unsupported" or may_fail_over(failed, self.call.source)

    def _has_another_key(self, way: Way, failed: Failed) -> bool:
        if failed.status not in (401, 429):
            return False
        tried = self._keys_tried[way.route.id] = self._keys_tried.get(way.route.id, 0) + 1
        return tried < len(way.standing.keys)


def _endpoint(route: Route) -> str:
    return route.base_url or route.id
