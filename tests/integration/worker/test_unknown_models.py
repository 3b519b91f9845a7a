"""A worker that cannot know which models there are takes none of them for gone: their work waits."""

from __future__ import annotations

import pytest
from tests.domain import World, jsonl, models_at, request

from ebbtide.catalog.catalog import EMPTY, Catalog
from ebbtide.catalog.upstreams import Upstream, UpstreamSource
from ebbtide.errors import UpstreamFailed


async def until_said(world: World, reason: str) -> None:
    async def said() -> bool:
        return bool(await world.value("select room_reason from batch_model_state where model = 'chat-1'") == reason)

    await world.until(said)


async def test_work_waits_while_no_server_has_named_its_models(world: World) -> None:
    job = await world.many(3)
    whole = world.models.current
    world.models.current = EMPTY
    async with world.worker():
        await until_said(world, "no_route_up")
        assert set((await world.states(job)).values()) == {"queued"}
        world.models.current = whole
        assert (await world.until_ended(job)).completed == 3


async def test_a_model_that_is_gone_fails_its_requests(world: World) -> None:
    job = await world.many(3)
    world.models.current = Catalog.of(model for model in world.models.current.models if model.id != "chat-1")
    async with world.worker():
        assert (await world.until_ended(job)).failed == 3
    assert {item["error_code"] for item in await world.items(job)} == {"model_not_found"}


async def test_no_file_is_rejected_for_models_not_known_yet(world: World) -> None:
    job = await world.from_file(jsonl([request("a")]))
    whole = world.models.current
    world.models.current = EMPTY
    async with world.worker() as worker:
        assert await worker.upkeep.validate(world.clock.now()) == 0
        assert (await world.job(job)).status == "validating"
        world.models.current = whole
        assert (await world.until_ended(job)).completed == 1


@pytest.mark.parametrize("away", [0, 1])
async def test_a_catalog_is_settled_once_every_server_has_answered(away: int) -> None:
    answers = [True, True]
    answers[away] = False

    async def fetch(url: str, key: str | None) -> bytes:
        if not answers[int(url.split("//")[1][0])]:
            raise UpstreamFailed("away", status=503)
        return b'{"data": [{"id": "m"}]}'

    source = UpstreamSource([Upstream("http://0.local/v1", "chat"), Upstream("http://1.local/v1", "chat")], fetch)
    await source.start()
    assert source.current.resolve("m") is not None
    assert not source.current.is_settled
    answers[away] = True
    await source.refresh(away)
    assert source.current.is_settled


def test_a_named_set_of_models_is_settled() -> None:
    assert models_at("http://127.0.0.1:1").is_settled
    assert not EMPTY.is_settled
