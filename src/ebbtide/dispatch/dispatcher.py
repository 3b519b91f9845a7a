"""One call to a model, from its routes to its outcome; for the worker and the proxy alike.

Which route is next, and what is reported, its course decides; here calls are made, raced where the model is hedged,
and waited for where all routes are full. Nothing is raised but a cancellation, which closes the upstream connection.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from random import Random
from typing import Final, TypeAlias

import msgspec

from ebbtide.catalog.model import Model, Route, TimeLimits
from ebbtide.clock import Clock, SystemClock
from ebbtide.dispatch.affinity import Affinity
from ebbtide.dispatch.course import Course, Departure, Way
from ebbtide.dispatch.failures import FailureLog
from ebbtide.dispatch.kinds import headers_from, wire_of
from ebbtide.dispatch.outcome import Answered, Call, Failed, Outcome, Source, Timeouts
from ebbtide.dispatch.plan import moved_first, nothing_planned, plan_routes, usable_routes
from ebbtide.dispatch.race import race
from ebbtide.dispatch.replies import Asked, judge, judge_broken, unsupported
from ebbtide.dispatch.rules import Rules
from ebbtide.dispatch.send import Broken, Opened, Reply, Request, Sender
from ebbtide.dispatch.standing import RouteHealth, Standings
from ebbtide.dispatch.streaming import Streaming
from ebbtide.dispatch.translation import body_for
from ebbtide.dispatch.waiting import Waiting
from ebbtide.errors import InvalidRequest
from ebbtide.weight import by_weight

_PATIENCE: Final[dict[Source, float]] = {"interactive": 30.0, "batch": 300.0}

Ask: TypeAlias = Callable[[Course, Way], Awaitable[Answered | Streaming | Failed]]


class Dispatcher:
    """Sends calls through a Sender, which it does not own.

    `in_flight` counts the calls that run now, by canonical model id and source; `hedges`, `failovers` and `offloads`
    the calls made so. `timeouts` are those of calls that bring none.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
        rules: Callable[[], Rules] = Rules,
        clock: Clock | None = None,
        rng: Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_flight: defaultdict[tuple[str, Source], int] = defaultdict(int)
        self.hedges = self.failovers = self.offloads = 0
        self._sender = sender
        self._timeouts = timeouts
        self._rules = rules
        self._clock = clock or SystemClock()
        self._rng = rng or Random()
        self._monotonic = monotonic
        self._failures = FailureLog()
        self._waiting = Waiting()
        self._standings = Standings(self._waiting.wake)
        self._affinity = Affinity()

    async def call(self, call: Call, departure: Departure | None = None) -> Outcome:
        """Answered or Failed. `departure` tells one who cancels this what had been sent."""
        course = self._course(call)
        if isinstance(course, Failed):
            return course
        course.departure = departure or course.departure
        counted = (call.model.id, call.source)
        self.in_flight[counted] += 1
        try:
            outcome = await self._ask(course, self._post)
        finally:
            self.in_flight[counted] -= 1
        assert not isinstance(outcome, Streaming)
        return outcome

    @asynccontextmanager
    async def stream(self, call: Call, departure: Departure | None = None) -> AsyncIterator[Streaming | Failed]:
        """A stream that began, or why none did. Leaving the context closes the upstream connection."""
        course = self._course(call)
        if isinstance(course, Failed):
            yield course
            return
        course.departure = departure or course.departure
        counted = (call.model.id, call.source)
        self.in_flight[counted] += 1
        try:
            begun = await self._ask(course, self._open)
            assert not isinstance(begun, Answered)
            try:
                yield begun
            finally:
                if isinstance(begun, Streaming):
                    await begun.close()
        finally:
            self.in_flight[counted] -= 1

    def is_able(self, model: Model, source: Source) -> bool:
        """Whether a route of the model could take a call at once."""
        now = self._monotonic()
        return any(self._standings.of(model, route).is_free(now) for route in usable_routes(model, source))

    def is_up(self, model: Model, source: Source) -> bool:
        """Whether the circuit of any route in use lets calls through, or is being tried."""
        now = self._monotonic()
        routes = usable_routes(model, source)
        return any(self._standings.of(model, route).breaker.state(now) != "open" for route in routes)

    def room(self, model: Model, source: Source) -> int | None:
        """How many calls of such work may be in flight without any having to wait; None when there is no limit."""
        now = self._monotonic()
        free = [self._standings.of(model, route).free(now) for route in usable_routes(model, source)]
        running = self.in_flight.get((model.id, source), 0) - self._waiting.count(model.id, source)
        return None if None in free else max(sum(filter(None, free)) + running, 0)

    def health(self) -> Sequence[RouteHealth]:
        """How every route stands that was used or looked at, and is configured (see `retain`)."""
        now = self._monotonic()
        return [standing.health(now) for standing in self._standings]

    def retain(self, models: Iterable[Model]) -> None:
        """These are the models now: what is known of any other route is forgotten once nothing runs on it."""
        self._standings.retain(models)

    def _course(self, call: Call) -> Course | Failed:
        model = call.model
        routes = plan_routes(model, call.source, self._rng)
        if not routes:
            return nothing_planned(model, call.source)
        now = self._monotonic()
        if len(routes) > 1:
            routes = self._preferred(routes, call, now)
        given, own = call.timeouts, model.time_limits
        timeouts = (given or self._timeouts) if own is None else _limited(given, self._timeouts, own)
        return Course(call, routes, timeouts, lambda route: self._standings.of(model, route), now)

    def _preferred(self, routes: Sequence[Route], call: Call, now: float) -> Sequence[Route]:
        """The routes with the caller's own first, and before it one whose circuit waits to be tried."""
        caller = call.caller
        if caller is not None and (kept := self._affinity.find(caller, call.model.id, now)) is not None:
            routes = moved_first(routes, lambda route: route.id == kept)
        return moved_first(routes, lambda route: self._standings.of(call.model, route).waits_for_probe(now))

    async def _ask(self, course: Course, ask: Ask) -> Answered | Streaming | Failed:
        """Go the course: until one route answers, or none is left."""
        while (way := await self._enter(course)) is not None:
            self.failovers += course.has_failed
            self.offloads += way.route.reserve
            wait = course.call.model.hedge_after
            if wait is None:
                begun = await ask(course, way)
                more = course.note(way, begun) if isinstance(begun, Failed) else False
            else:
                begun, more = await race(course, way, ask, wait, lambda: self._hedge(course))
            if not isinstance(begun, Failed):
                return self._told(course, begun)
            if not more:
                break
        return course.report(self._monotonic())

    def _hedge(self, course: Course) -> Way | None:
        way = self._next(course, self._monotonic())
        self.hedges += way is not None
        return way

    def _next(self, course: Course, now: float) -> Way | None:
        if off := self._rules().off:
            course.pass_over(off)
        return course.next(now)

    async def _enter(self, course: Course) -> Way | None:
        """The next way, once there is room on one; batched requests wait for a circuit to let them through too."""
        call, now = course.call, self._monotonic()
        until = min(course.ends_at, now + _PATIENCE[call.source])
        while (way := self._next(course, now)) is None and now < until:
            ready_in = course.ready_in(now)
            if ready_in is None or (ready_in and call.source == "interactive"):
                break
            await self._waiting.wait(call.model.id, call.source, min(ready_in or until - now, until - now))
            now = self._monotonic()
        return way

    def _told(self, course: Course, begun: Answered | Streaming) -> Answered | Streaming:
        others = course.others()
        if others.calls:
            if isinstance(begun, Answered):
                return msgspec.structs.replace(begun, others=others)
            begun.others = others
        return begun

    async def _post(self, course: Course, way: Way) -> Outcome:
        try:
            outcome = await self._exchange(course, way)
        except BaseException:
            way.standing.break_off(way.entered)
            raise
        self._leave(course, way, outcome if isinstance(outcome, Failed) else None)
        return outcome

    async def _exchange(self, course: Course, way: Way) -> Outcome:
        call, route = course.call, way.route
        asked = Asked(call, route)
        try:
            body = await by_weight(len(call.body), body_for, call, route, stream=False)
        except InvalidRequest as error:
            return unsupported(error, asked)
        course.departure.begin(route.id)
        return await self._judge(await self._sender.post(_request(call, way, body)), asked)

    async def _open(self, course: Course, way: Way) -> Streaming | Failed:
        async with AsyncExitStack() as stack:
            try:
                begun = await self._begin(course, way, stack)
            except BaseException:
                way.standing.break_off(way.entered)
                raise
            if isinstance(begun, Streaming):
                stack.callback(self._leave_stream, course, way, begun)
                begun.keep(stack.pop_all().aclose)
            else:
                self._leave(course, way, begun)
        return begun

    async def _begin(self, course: Course, way: Way, stack: AsyncExitStack) -> Streaming | Failed:
        call = course.call
        asked = Asked(call, way.route)
        try:
            body = await by_weight(len(call.body), body_for, call, way.route, stream=True)
        except InvalidRequest as error:
            return unsupported(error, asked)
        course.departure.begin(way.route.id)
        reply = await stack.enter_async_context(self._sender.stream(_request(call, way, body)))
        if isinstance(reply, Opened):
            stack.push_async_callback(reply.pieces.aclose)
            streaming = Streaming(reply, asked, int(self._clock.now().timestamp()))
            return await streaming.begin(way.timeouts.first_byte) or streaming
        outcome = await self._judge(reply, asked)
        if isinstance(outcome, Failed):
            return outcome
        return judge_broken(Broken("malformed", sent=True), asked)  # a whole answer, where a stream was asked for

    def _leave_stream(self, course: Course, way: Way, streaming: Streaming) -> None:
        self._leave(course, way, streaming.failed)

    def _leave(self, course: Course, way: Way, failed: Failed | None) -> None:
        """A call to a route has ended."""
        call, now = course.call, self._monotonic()
        way.standing.leave(way.entered, failed, now, self._rules)
        if failed is not None:
            self._failures.note(call.model.id, failed)
        if call.caller is None or len(call.model.routes) == 1:
            return
        if failed is not None:
            self._affinity.drop(call.caller, call.model.id, way.route.id)
        elif seconds := self._rules().affinity_seconds:
            self._affinity.keep(call.caller, call.model.id, way.route.id, now + seconds)

    async def _judge(self, reply: Reply | Broken, asked: Asked) -> Outcome:
        size = len(reply.body) if isinstance(reply, Reply) else 0
        return await by_weight(size, judge, reply, asked, self._clock)


def _request(call: Call, way: Way, body: bytes) -> Request:
    wire = wire_of(way.route, call.target)
    assert wire is not None  # or there would be no body
    headers = headers_from(call, way.route, wire)
    return Request(way.route, wire, body, way.timeouts, call.max_bytes, way.entered.key, headers)


@lru_cache(maxsize=256)
def _limited(given: Timeouts | None, default: Timeouts, own: TimeLimits) -> Timeouts:
    """A call's times, or the default ones, with the model's own in their place.

    Of two limits for the whole the lower one holds where the call brings its own: somebody waits no longer than that.
    """
    timeouts = given or default
    total = own.total or timeouts.total
    return Timeouts(
        connect=own.connect or timeouts.connect,
        total=total if given is None else min(total, given.total),
        gap=own.gap or timeouts.gap,
        first_byte=own.first_byte or timeouts.first_byte,
    )
