"""The models of a server that comes up later are taken up, over real HTTP."""

from __future__ import annotations

import asyncio

import pytest
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


async def test_what_a_server_may_answer_wrongly() -> None:
    async with FakeUpstream() as upstream, Sender() as sender:
        assert b"test-model" in await sender.fetch(f"{upstream.url}/models")
        with pytest.raises(UpstreamFailed, match="refused"):
            await sender.fetch(f"http://127.0.0.1:{closed_port()}/v1/models")
