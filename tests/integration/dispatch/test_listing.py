"""The models of a server that comes up later are taken up, over real HTTP."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.fake_upstream import FakeUpstream, closed_port

from ebbtide.catalog.upstreams import Upstream, UpstreamSource
from ebbtide.dispatch.send import Sender
from ebbtide.errors import UpstreamFailed


async def test_a_server_that_is_not_up_yet_does_not_hold_the_start() -> None:
    late = FakeUpstream(models=["late"], port=closed_port())
    async with FakeUpstream(models=["here"]) as here, Sender() as sender:
        source = UpstreamSource([Upstream(here.url), Upstream(late.url)], sender.fetch)
        async with asyncio.timeout(5):
            await source.start()
        assert [model.id for model in source.current.models] == ["here"]
        await late.start()
        assert await source.refresh(1)
        assert [model.id for model in source.current.models] == ["here", "late"]
        await late.stop()


async def test_a_server_that_wants_a_key() -> None:
    sent: list[str | None] = []

    async def models(request: web.Request) -> web.Response:
        sent.append(request.headers.get("Authorization"))
        return web.json_response({"data": [{"id": "m"}]}, status=200 if sent[-1] == "Bearer secret" else 401)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with TestServer(app) as server, Sender() as sender:
        url = str(server.make_url("/v1"))
        source = UpstreamSource([Upstream(url)], sender.fetch)
        await source.start()
        assert any("(401): --upstream-key-env" in notice for notice in source.notices)
        source = UpstreamSource([Upstream(url)], sender.fetch, key="secret")
        await source.start()
    assert [model.id for model in source.current.models] == ["m"]
    assert sent == [None, "Bearer secret"]


async def test_what_a_server_may_answer_wrongly() -> None:
    async with FakeUpstream() as upstream, Sender() as sender:
        assert b"test-model" in await sender.fetch(f"{upstream.url}/models")
        with pytest.raises(UpstreamFailed, match="refused"):
            await sender.fetch(f"http://127.0.0.1:{closed_port()}/v1/models")
