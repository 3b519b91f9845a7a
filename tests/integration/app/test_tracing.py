"""Traces: nothing unless they are asked for, else spans that hang together with the caller's and upstreams'."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.fake_upstream import FakeUpstream
from tests.gateway import chat_model, models_file, start_gateway

from ebbtide import tracing
from ebbtide.errors import SetupError
from ebbtide.otel import OtelTracer

CHAT = {"model": "chat-1", "messages": [{"role": "user", "content": "Hello"}]}
_TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def spans() -> AsyncIterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use_tracer(OtelTracer(provider))
    yield exporter
    tracing.close_tracing()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_and_its_upstream_call_are_in_the_callers_trace(
    spans: InMemorySpanExporter, database_url: str, listen_url: str, tmp_path: Path, stream: bool
) -> None:
    async with FakeUpstream() as upstream:
        models = models_file(tmp_path, chat_model(upstream.url))
        async with start_gateway(database_url, models, role="api", listen_url=listen_url) as gateway:
            headers = {"traceparent": f"00-{_TRACE}-b7ad6b7169203331-01", "X-Request-ID": "mine"}
            body = {**CHAT, "stream": stream}
            answer = await gateway.call("POST", "/v1/chat/completions", json=body, headers=headers)
            assert answer.status == 200
        asked = upstream.requests[0].headers
    found: dict[str, ReadableSpan] = {span.name: span for span in spans.get_finished_spans()}
    server, client = found["POST /v1/chat/completions"], found["upstream chat"]
    assert server.context is not None
    assert client.context is not None
    assert format(server.context.trace_id, "032x") == format(client.context.trace_id, "032x") == _TRACE
    assert client.parent is not None
    assert client.parent.span_id == server.context.span_id
    assert asked["traceparent"] == f"00-{_TRACE}-{client.context.span_id:016x}-01"
    assert asked["x-request-id"] == "mine"
    assert dict(client.attributes or {}) | {"ebbtide.model": "chat-1"} == dict(client.attributes or {})


def test_without_an_endpoint_nothing_is_loaded_and_with_one_the_extra_is_asked_for() -> None:
    def missing() -> tracing.Tracer:
        raise ImportError("no such extra")

    tracing.set_up_tracing({}, missing)
    tracing.set_up_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, missing)
    with pytest.raises(SetupError, match=r"ebbtide\[otel\]"):
        tracing.set_up_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, missing)
    assert tracing.start_span("a", "client").headers() == {}


def test_the_gateway_does_not_load_the_extra_by_itself() -> None:
    import subprocess

    program = "import sys, ebbtide.app; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
