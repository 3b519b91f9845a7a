"""The dispatcher and the sender as they are watched: every call counted, timed and traced, and otherwise unchanged.

Labels are what the operator configured: a model's own id and a route's id, never what a caller wrote.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import lru_cache

from prometheus_client import Counter, Histogram

from ebbtide import tracing
from ebbtide.catalog.model import Model
from ebbtide.catalog.prices import cost
from ebbtide.dialects.values import Usage, sum_usages
from ebbtide.dispatch.course import Departure
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Call, Failed, Outcome, Source, charge_unknown, used
from ebbtide.dispatch.send import Broken, Opened, Reply, Request, Sender
from ebbtide.dispatch.streaming import Streaming
from ebbtide.records import metrics
from ebbtide.siblings import Sample

_model: ContextVar[str] = ContextVar("model", default="unknown")


class ObservedDispatcher(Dispatcher):
    """A Dispatcher whose calls are counted by model and source when they end."""

    async def call(self, call: Call, departure: Departure | None = None) -> Outcome:
        seen, began = self._watch(call), time.monotonic()
        departure = departure or Departure()
        outcome: Outcome | None = None
        try:
            outcome = await super().call(call, departure)
        finally:
            seen.ended(outcome, time.monotonic() - began, was_sent=departure.has_begun)
        return outcome

    @asynccontextmanager
    async def stream(self, call: Call, departure: Departure | None = None) -> AsyncIterator[Streaming | Failed]:
        seen, began = self._watch(call), time.monotonic()
        departure = departure or Departure()
        opened: Streaming | Failed | None = None
        try:
            async with super().stream(call, departure) as opened:
                if isinstance(opened, Streaming):
                    seen.first_token.observe(time.monotonic() - began)
                yield opened
        finally:
            seen.stream_ended(opened, time.monotonic() - began, was_sent=departure.has_begun)

    def gauges(self, models: Iterable[Model]) -> list[Sample]:
        """What runs now, and how the routes stand of the models that there are now."""
        self.retain(models)
        samples: list[Sample] = [(metrics.IN_FLIGHT, key, float(count)) for key, count in list(self.in_flight.items())]
        for standing in self.health():
            labels = (standing.model, standing.route)
            samples.append((metrics.CIRCUIT, labels, _CIRCUIT[standing.state]))
            samples.append((metrics.ROUTE_IN_FLIGHT, labels, standing.in_flight))
            samples.append((metrics.KEYS_RESTING, labels, standing.keys_resting))
        return samples

    def _watch(self, call: Call) -> _Seen:
        _model.set(call.model.id)
        key = (call.model.id, call.source)
        seen = _SEEN.get(key)
        if seen is None or seen.model is not call.model:
            seen = _SEEN[key] = _Seen(call.model, call.source)
        return seen


class _Seen:
    """What is counted of a model's calls from one source, with its labels looked up once."""

    def __init__(self, model: Model, source: Source) -> None:
        self.model = model
        self._labels = (source, model.id)
        self.first_token: Histogram = metrics.FIRST_TOKEN.labels(*self._labels)
        self._duration: Histogram = metrics.DURATION.labels(*self._labels)
        self._statuses: dict[str, Counter] = {}
        self._tokens = {kind: metrics.TOKENS.labels(*self._labels, kind) for kind in _TOKEN_KINDS}
        self._cost: Counter = metrics.COST.labels(*self._labels)
        self._unknown: Counter = metrics.COST_UNKNOWN.labels(*self._labels)
        self._factor = model.batch_price_factor if source == "batch" else Decimal(1)

    def ended(self, outcome: Outcome | None, seconds: float, *, was_sent: bool = True) -> None:
        """A call ended; None: it was cancelled, when it may have been sent or before."""
        self._duration.observe(seconds)
        if outcome is None:
            self._count("cancelled")
            if was_sent:
                self._unknown.inc()
        else:
            self._count(f"{outcome.status // 100}xx")
            self._bill(used(outcome), unknown=charge_unknown(outcome))

    def stream_ended(self, opened: Streaming | Failed | None, seconds: float, *, was_sent: bool) -> None:
        """A stream ended, or none began; one that was left before its end was cancelled."""
        if opened is None or isinstance(opened, Failed):
            self.ended(opened, seconds, was_sent=was_sent)
            return
        self._duration.observe(seconds)
        failed = opened.failed
        if failed is not None:
            self._count(f"{failed.status // 100}xx")
        else:
            self._count("2xx" if opened.came_whole else "cancelled")
        usages = (*opened.others.used, *([opened.usage] if opened.usage else ()))
        self._bill(sum_usages(usages) if usages else None, unknown=opened.usage is None or opened.others.unknown)

    def _count(self, status: str) -> None:
        counter = self._statuses.get(status)
        if counter is None:
            counter = self._statuses[status] = metrics.REQUESTS.labels(*self._labels, status)
        counter.inc()

    def _bill(self, usage: Usage | None, *, unknown: bool) -> None:
        if unknown:
            self._unknown.inc()
        if usage is None:
            return
        for kind, count in zip(_TOKEN_KINDS, _counts(usage), strict=True):
            if count:
                self._tokens[kind].inc(count)
        self._cost.inc(float(cost(self.model.pricing, usage, self._factor)))


_SEEN: dict[tuple[str, Source], _Seen] = {}
_CIRCUIT = {"closed": 0.0, "half_open": 1.0, "open": 2.0}
_TOKEN_KINDS = ("input", "cached", "output", "reasoning")


def _counts(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens


class ObservedSender(Sender):
    """A Sender whose calls are counted by route and by the head of the answer, and of which upstreams are told."""

    async def post(self, request: Request) -> Reply | Broken:
        span = _span(request)
        try:
            with tracing.told_upstream(span):
                reply = await super().post(request)
        except BaseException:
            _count(request, "cancelled", span)
            raise
        else:
            _note(request, reply, span)
        finally:
            span.end()
        return reply

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Opened | Reply | Broken]:
        span = _span(request)
        try:
            async with AsyncExitStack() as stack:
                with tracing.told_upstream(span):
                    reply = await stack.enter_async_context(super().stream(request))
                _note(request, reply, span)
                yield reply
        finally:
            span.end()


def _span(request: Request) -> tracing.Span:
    span = tracing.start_span(f"upstream {request.wire}", "client")
    span.set("ebbtide.model", _model.get())
    span.set("ebbtide.route", request.route.id)
    return span


def _note(request: Request, reply: Opened | Reply | Broken, span: tracing.Span) -> None:
    result = "ok"
    if isinstance(reply, Broken):
        result = reply.kind
    elif isinstance(reply, Reply) and reply.status != 200:
        result = f"http_{reply.status}"
    if isinstance(reply, Reply):
        span.set("http.response.status_code", reply.status)
    _count(request, result, span)


def _count(request: Request, result: str, span: tracing.Span) -> None:
    if result != "ok":
        span.fail(result)
    _upstream_calls(_model.get(), request.route.id, result).inc()


@lru_cache(maxsize=1024)
def _upstream_calls(model: str, route: str, result: str) -> Counter:
    return metrics.UPSTREAM_CALLS.labels(model, route, result)
