"""A database that goes away and comes back: 503 with Retry-After meanwhile, and nothing else to do afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.gateway import TestGateway, start_gateway, until
from tests.wire import Wire


async def test_requests_are_told_to_come_back(database_url: str, listen_url: str, models: Path) -> None:
    wire = Wire(database_url)
    async with wire.url() as url, start_gateway(url, models, role="api", listen_url=listen_url) as gateway:
        assert (await gateway.call("GET", "/v1/batches")).status == 200
        wire.sever()
        answer = await gateway.call("GET", "/v1/batches")
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
        assert answer.error["type"] == "server_error"
        ready = await gateway.call("GET", "/health/ready", key=None)
        assert ready.status == 503
        assert (await gateway.call("GET", "/health", key=None)).status == 200
        wire.cut = False
        await until(lambda: _is_ready(gateway))
        assert (await gateway.call("GET", "/v1/batches")).status == 200


async def _is_ready(gateway: TestGateway) -> bool:
    return (await gateway.call("GET", "/health/ready", key=None)).status == 200
