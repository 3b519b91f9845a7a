"""One call to a model, from its routes to its outcome; for the worker and the proxy alike.

The next route is tried only where the first cannot have begun; what is reported is the first error, unless a later
one is final. Nothing is raised but a cancellation, which closes the upstream connection.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from ebbtide.catalog.model import Route
from ebbtide.clock import Clock, SystemClock
from ebbtide.dialects.openai.requests import for_upstream, with_model
from ebbtide.dialects.values import Body
from ebbtide.dispatch.failures import FailureLog
from ebbtide.dispatch.outcome import Call, Failed, Outcome, Source, Timeouts, may_go_elsewhere, may_pass
from ebbtide.dispatch.plan import nothing_planned, plan_routes
from ebbtide.dispatch.replies import Asked, judge, judge_broken
from ebbtide.dispatch.send import Broken, Opened, Reply, Request, Sender
from ebbtide.dispatch.streaming import Streaming

STREAM_TIMEOUTS = Timeouts(connect=10.0, total=3600.0, gap=300.0)


class Dispatcher:
    """Sends calls through a Sender, which it does not own.

    `in_flight` counts the calls that run now, by canonical model id and source.
    """

    def __init__(
        self,
        sender: Sender,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
        clock: Clock | None = None,
        dice: Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_flight: defaultdict[tuple[str, Source], int] = defaultdict(int)
        self._sender = sender
        self._timeouts = timeouts
        self._clock = clock or SystemClock()
        self._dice = dice or Random()
        self._monotonic = monotonic
        self._failures = FailureLog()

    async def call(self, call: Call) -> Outcome:
        """Answered or Failed."""
        routes = plan_routes(call.model, call.source, self._dice)
        if not routes:
            return nothing_planned(call.model, call.source)
        counted = (call.model.id, call.source)
        self.in_flight[counted] += 1
        try:
            return await self._try_each(routes, call)
        finally:
            self.in_flight[counted] -= 1

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Streaming | Failed]:
        """A chat stream that began, or why none did. Leaving the context closes the upstream connection."""
        routes = plan_routes(call.model, call.source, self._dice)
        if not routes:
            yield nothing_planned(call.model, call.source)
            return
        counted = (call.model.id, call.source)
        self.in_flight[counted] += 1
        try:
            async with self._open_each(routes, call) as opened:
                yield opened
        finally:
            self.in_flight[counted] -= 1

    async def _try_each(self, routes: tuple[Route, ...], call: Call) -> Outcome:
        first: Failed | None = None
        for route in routes:
            started = self._monotonic()
            body = with_model(call.body, route.model)
            reply = await self._sender.post(
                Request(route, call.target, body, call.timeouts or self._timeouts, call.max_bytes)
            )
            outcome = judge(reply, Asked(call, route, started, self._monotonic()), self._clock)
            if not isinstance(outcome, Failed):
                return outcome
            self._failures.note(call.model.id, outcome)
            first = _told(first, outcome)
            if not may_go_elsewhere(outcome):
                break
        assert first is not None
        return first

    @asynccontextmanager
    async def _open_each(self, routes: tuple[Route, ...], call: Call) -> AsyncIterator[Streaming | Failed]:
        first: Failed | None = None
        sent = Body(call.requested, call.body, stream=True)
        for route in routes:
            started = self._monotonic()
            request = Request(
                route,
                call.target,
                for_upstream(sent, route.model),
                call.timeouts or STREAM_TIMEOUTS,
                call.max_bytes,
            )
            async with self._sender.stream(request) as reply:
                asked = Asked(call, route, started, self._monotonic())
                if isinstance(reply, Opened):
                    streaming = Streaming(reply, asked, self._monotonic)
                    yield streaming
                    if streaming.failed is not None:
                        self._failures.note(call.model.id, streaming.failed)
                    return
                outcome = self._not_a_stream(reply, asked)
                self._failures.note(call.model.id, outcome)
                first = _told(first, outcome)
            if not may_go_elsewhere(first):
                break
        assert first is not None
        yield first

    def _not_a_stream(self, reply: Reply | Broken, asked: Asked) -> Failed:
        outcome = judge(reply, asked, self._clock)
        return outcome if isinstance(outcome, Failed) else judge_broken(Broken("malformed", sent=True), asked)


def _told(first: Failed | None, later: Failed) -> Failed:
    """What is reported of two failures: the first, unless the later one is final or left a cost unknown."""
    if first is None:
        return later
    kept = first if may_pass(later) and not later.cost_unknown else later
    return replace(kept, sent=first.sent or later.sent, started_at=first.started_at, finished_at=later.finished_at)
