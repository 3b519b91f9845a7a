"""Traces as a collector gets them: a real gateway process exports OTLP over HTTP, and what arrives is read as such."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.fake_upstream import FakeUpstream
from tests.gateway import chat_model, models_file, request_line
from tests.processes import Processes

pytestmark = pytest.mark.processes
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PROMPT = "a prompt that no trace may tell"


class Collector:
    """Takes what is exported to it, as OpenTelemetry's own collector does. `headers` are those of the first export."""

    def __init__(self) -> None:
        self.exports: list[ExportTraceServiceRequest] = []
        self.headers: dict[str, str] = {}
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        export = ExportTraceServiceRequest()
        export.ParseFromString(await request.read())
        self.headers = self.headers or {name.lower(): value for name, value in request.headers.items()}
        self.exports.append(export)
        return web.Response(body=b"", content_type="application/x-protobuf")

    def spans(self) -> list[Span]:
        return [
            span
            for export in self.exports
            for resource in export.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield collector
    await runner.cleanup()


async def test_spans_arrive_at_a_collector_and_hang_together(
    database_url: str, listen_url: str, tmp_path: Path, collector: Collector
) -> None:
    async with FakeUpstream() as upstream:
        environ = {
            "EBBTIDE_DATABASE_URL": database_url,
            "EBBTIDE_DATABASE_LISTEN_URL": listen_url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=ebb",
        }
        models = models_file(tmp_path, chat_model(upstream.url))
        async with Processes(tmp_path, models, **environ) as processes:
            gateway = await processes.start()
            headers = {"traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-ID": "mine"}
            body = request_line("one", text=PROMPT)["body"]
            for stream in (False, True):
                sent = {"headers": headers, "json": body | {"stream": stream}}
                assert (await gateway.call("POST", "/v1/chat/completions", **sent)).status == 200
            batch = await gateway.create([request_line("one", text=PROMPT)])
            await gateway.ended(batch)
            assert await gateway.stop() == 0  # what is left is sent before it ends
        traced = [request.headers["traceparent"] for request in upstream.requests if "traceparent" in request.headers]

    assert collector.headers["x-tenant"] == "ebb"
    assert collector.headers["content-type"] == "application/x-protobuf"
    [service] = {_service(export) for export in collector.exports}
    assert service == "ebbtide"
    spans = {span.span_id: span for span in collector.spans()}
    ours = [span for span in spans.values() if span.trace_id.hex() == TRACE]
    servers = [span for span in ours if span.kind == Span.SPAN_KIND_SERVER]
    assert [span.name for span in servers] == ["POST /v1/chat/completions"] * 2
    assert {span.parent_span_id.hex() for span in servers} == {CALLER}
    clients = [span for span in ours if span.kind == Span.SPAN_KIND_CLIENT]
    assert {span.parent_span_id for span in clients} == {span.span_id for span in servers}
    told = {(span.trace_id.hex(), span.span_id.hex()) for span in spans.values()}
    assert len(traced) == 3  # the batch request's as well
    assert {tuple(one.split("-")[1:3]) for one in traced} <= told
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 0 for span in spans.values())
    assert PROMPT not in str(collector.exports)


def _service(export: ExportTraceServiceRequest) -> str:
    [name] = [
        attribute.value.string_value
        for resource in export.resource_spans
        for attribute in resource.resource.attributes
        if attribute.key == "service.name"
    ]
    return str(name)
