"""Traces by OpenTelemetry's SDK, sent as OTLP over HTTP; imported only where they are asked for (the extra `otel`).

Endpoint, headers, sampling and the service's name come from the environment, under OpenTelemetry's own names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ebbtide import __version__
from ebbtide.tracing import Span, SpanKind, Value

_CLOSE_SECONDS: Final = 5.0
_KINDS: Final[Mapping[SpanKind, trace.SpanKind]] = {
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
    "internal": trace.SpanKind.INTERNAL,
}
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OtelSpan:
    """One span of the SDK's."""

    def __init__(self, inner: trace.Span) -> None:
        self.inner = inner

    def name(self, name: str) -> None:
        self.inner.update_name(name)

    def set(self, key: str, value: Value) -> None:
        self.inner.set_attribute(key, value)

    def fail(self, reason: str) -> None:
        self.inner.set_status(trace.StatusCode.ERROR, reason)

    def headers(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, trace.set_span_in_context(self.inner))
        return carrier

    def end(self) -> None:
        self.inner.end()


class OtelTracer:
    """Spans of one provider."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("ebbtide", __version__)

    def start(self, name: str, kind: SpanKind, caller: Mapping[str, str]) -> Span:
        above = _PROPAGATOR.extract(caller) if caller else None
        return OtelSpan(self._tracer.start_span(name, context=above, kind=_KINDS[kind]))

    @contextmanager
    def current(self, span: Span) -> Iterator[None]:
        assert isinstance(span, OtelSpan)
        token = context.attach(trace.set_span_in_context(span.inner))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        """Send what is left, for some seconds at most: a collector that is away holds nobody up."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def build_tracer() -> OtelTracer:
    """One that sends to where the environment says."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "ebbtide"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(provider)
