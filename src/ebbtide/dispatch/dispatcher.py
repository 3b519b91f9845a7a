"""One call to a model, from its routes to its outcome; for the worker and the proxy alike.

The next route is tried only where the first cannot have begun, within the time that the call as a whole may take; what
is reported is the first error, unless a later one is final. Nothing is raised but a cancellation, which closes the
upstream connection.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from random import Random

import msgspec

from ebbtide.catalog.model import Route
from ebbtide.clock import Clock, SystemClock
from ebbtide.dialects.openai.requests import for_upstream, with_model
from ebbtide.dialects.values import Body
from ebbtide.dispatch.failures import FailureLog
from ebbtide.dispatch.outcome import Call, Failed, Outcome, Source, Timeouts, is_retryable, may_fail_over
from ebbtide.dispatch.plan import nothing_planned, plan_routes
from ebbtide.dispatch.replies import Asked, judge, judge_broken
from ebbtide.dispatch.send import Broken, Opened, Reply, Request, Sender
from ebbtide.dispatch.streaming import Streaming
from ebbtide.weight import by_weight


class Dispatcher:
    """Sends calls through a Sender, which it does not own.

    `in_flight` counts the calls that run now, by canonical model id and source. `timeouts` are those of calls that
    bring none.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
        clock: Clock | None = None,
        rng: Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_flight: defaultdict[tuple[str, Source], int] = defaultdict(int)
        self._sender = sender
        self._timeouts = timeouts
        self._clock = clock or SystemClock()
        self._rng = rng or Random()
        self._monotonic = monotonic
        self._failures = FailureLog()

    async def call(self, call: Call) -> Outcome:
        """Answered or Failed."""
        routes = plan_routes(call.model, call.source, self._rng)
        if not routes:
            return nothing_planned(call.model, call.source)
        with self._counted(call):
            return await self._try_each(routes, call)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Streaming | Failed]:
        """A chat stream that began, or why none did. Leaving the context closes the upstream connection."""
        routes = plan_routes(call.model, call.source, self._rng)
        if not routes:
            yield nothing_planned(call.model, call.source)
            return
        with self._counted(call):
            async with self._open_each(routes, call) as opened:
                yield opened

    @contextmanager
    def _counted(self, call: Call) -> Iterator[None]:
        counted = (call.model.id, call.source)
        self.in_flight[counted] += 1
        try:
            yield
        finally:
            self.in_flight[counted] -= 1

    async def _try_each(self, routes: tuple[Route, ...], call: Call) -> Outcome:
        first: Failed | None = None
        for route, timeouts in self._tries(routes, call):
            body = await by_weight(len(call.body), with_model, call.body, route.model)
            reply = await self._sender.post(Request(route, call.target, body, timeouts, call.max_bytes))
            outcome = await self._judge(reply, Asked(call, route))
            if not isinstance(outcome, Failed):
                return outcome
            self._failures.note(call.model.id, outcome)
            first = _reported_failure(first, outcome)
            if not may_fail_over(outcome):
                break
        assert first is not None
        return first

    @asynccontextmanager
    async def _open_each(self, routes: tuple[Route, ...], call: Call) -> AsyncIterator[Streaming | Failed]:
        first: Failed | None = None
        sent = Body(call.requested, call.body, stream=True)
        for route, timeouts in self._tries(routes, call):
            body = await by_weight(len(call.body), for_upstream, sent, route.model)
            asked = Asked(call, route)
            async with self._sender.stream(Request(route, call.target, body, timeouts, call.max_bytes)) as reply:
                if isinstance(reply, Opened):
                    streaming = Streaming(reply, asked)
                    yield streaming
                    if streaming.failed is not None:
                        self._failures.note(call.model.id, streaming.failed)
                    return
                outcome = await self._judge(reply, asked)
            if not isinstance(outcome, Failed):  # a whole answer, where a stream was asked for
                outcome = judge_broken(Broken("malformed", sent=True), asked)
            self._failures.note(call.model.id, outcome)
            first = _reported_failure(first, outcome)
            if not may_fail_over(outcome):
                break
        assert first is not None
        yield first

    def _tries(self, routes: tuple[Route, ...], call: Call) -> Iterator[tuple[Route, Timeouts]]:
        """The routes, each with the time that is left of the call's when its turn comes; at least the first one."""
        timeouts = call.timeouts or self._timeouts
        ends_at = self._monotonic() + timeouts.total
        yield routes[0], timeouts
        for route in routes[1:]:
            left = ends_at - self._monotonic()
            if left <= 0:
                return
            yield route, msgspec.structs.replace(timeouts, total=left)

    async def _judge(self, reply: Reply | Broken, asked: Asked) -> Outcome:
        size = len(reply.body) if isinstance(reply, Reply) else 0
        return await by_weight(size, judge, reply, asked, self._clock)


def _reported_failure(first: Failed | None, later: Failed) -> Failed:
    """What is reported of two failures: the first, unless the later one is final or left a cost unknown."""
    if first is None:
        return later
    kept = first if is_retryable(later) and not later.cost_unknown else later
    return replace(kept, sent=first.sent or later.sent)
