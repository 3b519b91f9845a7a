"""The catalog follows its file, and what servers list, and keeps the old one when it cannot."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ebbtide.catalog.source import FileSource
from ebbtide.catalog.upstreams import Upstream, UpstreamSource, configured_models
from ebbtide.clock import SystemClock
from ebbtide.config import Config
from ebbtide.duties import repeat
from ebbtide.errors import SetupError, UpstreamFailed

FILE = "models:\n  - id: {name}\n    routes: [{{id: r, kind: standin}}]\n"


async def test_a_change_is_taken_up_and_an_invalid_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(FILE.format(name="one"))
    source = FileSource(path, {})
    await source.start()
    first = source.current
    assert first.resolve("one") is not None
    assert source.refresh() is False
    assert source.current is first

    path.write_text(FILE.format(name="second"))
    assert source.refresh() is True
    assert source.current.resolve("second") is not None
    assert source.current.resolve("one") is None

    path.write_text(FILE.format(name="auto"))
    with capture_logs() as logs:
        assert source.refresh() is False
        assert source.refresh() is False
    assert source.current.resolve("second") is not None
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert f"{path}, line 2: " in logs[0]["reason"]

    path.unlink()
    with capture_logs() as logs:
        assert source.refresh() is False
    assert source.current.resolve("second") is not None
    assert "cannot be read" in logs[0]["reason"]


class Stumbling(dict[str, str]):
    """An environment that cannot be asked."""

    def __contains__(self, name: object) -> bool:
        raise OSError("no environment")


async def test_a_load_that_fails_in_a_way_nobody_thought_of_keeps_the_old_models(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(FILE.format(name="one"))
    source = FileSource(path, Stumbling())
    await source.start()
    path.write_text(FILE.format(name="${NAME}"))
    with capture_logs() as logs:
        assert source.refresh() is False
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("models_file_not_read", "error")]
    assert source.current.resolve("one") is not None
    path.write_text(FILE.format(name="three"))
    assert source.refresh() is True


class SignallingSource(FileSource):
    """Tells when a change was taken up."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, {}, interval=0.01)
        self.taken_up = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def refresh(self) -> bool:
        changed = super().refresh()
        if changed:
            self._loop.call_soon_threadsafe(self.taken_up.set)
        return changed


async def test_watching_sees_a_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(FILE.format(name="one"))
    source = SignallingSource(path)
    await source.start()
    watching = asyncio.create_task(repeat(source.duties()[0], SystemClock(), random.Random()))
    new = tmp_path / "new"
    new.write_text(FILE.format(name="two"))
    new.rename(path)
    async with asyncio.timeout(10):
        await source.taken_up.wait()
    assert source.current.resolve("two") is not None
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"models: {"])
async def test_a_bad_file_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ebbtide.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SetupError, match=str(path)):
        await FileSource(path, {}).start()


class Servers:
    """What each URL answers at the moment."""

    def __init__(self, **listed: bytes) -> None:
        self.listed = listed
        self.keys: set[str | None] = set()

    async def fetch(self, url: str, key: str | None) -> bytes:
        self.keys.add(key)
        host = url.removeprefix("http://").partition(":")[0]
        if host not in self.listed:
            raise UpstreamFailed("no answer (refused)", status=502)
        assert url.endswith("/v1/models")
        return self.listed[host]


async def test_models_come_from_the_servers() -> None:
    servers = Servers(
        localhost=b'{"data": [{"id": "a", "max_model_len": 4096}, {"id": "a"}, {"id": "auto"}, {"id": "b c"}]}'
    )
    upstreams = [
        Upstream("http://localhost:1/v1/"),
        Upstream("http://gpu:2/v1"),
        Upstream("http://vec:3/v1", "embedding"),
    ]
    source = UpstreamSource(upstreams, servers.fetch)
    await source.start()
    (model,) = source.current.models
    assert (model.id, model.type, len(model.routes), model.routes[0].batch_allowed) == ("a", "chat", 1, True)
    assert model.pricing.input == 0

    servers.listed |= {"gpu": b'{"data":[{"id":"a"},{"id":"g"}]}', "vec": b'{"data":[{"id":"v"},{"id":"a"}]}'}
    assert await source.refresh(1)
    assert await source.refresh(2)
    assert [(model.id, model.type) for model in source.current.models] == [
        ("a", "chat"),
        ("g", "chat"),
        ("v", "embedding"),
    ]
    both = source.current.resolve("a")
    assert both is not None
    assert [route.base_url for route in both.routes] == ["http://localhost:1/v1", "http://gpu:2/v1"]
    assert [route.batch_allowed for route in both.routes] == [True, False]

    kept = source.current
    assert not await source.refresh(1)
    servers.listed["gpu"] = b"<html>"
    assert not await source.refresh(1)
    del servers.listed["gpu"]
    with capture_logs() as logs:
        assert not await source.refresh(1)
        assert not await source.refresh(1)
    assert len(logs) == 1
    assert source.current is kept


async def test_self_hosted_servers_may_run_batches_and_the_operator_is_told_otherwise() -> None:
    servers = Servers(gpu=b'{"data":[{"id":"g"}]}')
    plain = UpstreamSource([Upstream("http://gpu:2/v1")], servers.fetch)
    assert any("--self-hosted" in notice for notice in plain.notices)
    assert any("priced at 0" in notice for notice in plain.notices)
    assert any("has not listed its models yet" in notice for notice in plain.notices)
    own = UpstreamSource([Upstream("http://gpu:2/v1")], servers.fetch, self_hosted=True)
    await own.start()
    assert not any("--self-hosted" in notice for notice in own.notices)
    assert own.current.models[0].has_batch_route
    assert servers.keys == {None}


async def test_a_key_is_sent_with_everything(tmp_path: Path) -> None:
    servers = Servers(gpu=b'{"data":[{"id":"g"}]}')
    config = Config(data_dir=tmp_path, upstreams=("http://gpu:2/v1",), upstream_key_env="GPU_KEY")
    source = configured_models(config, {"GPU_KEY": " secret\n"}, servers.fetch)
    await source.start()
    assert servers.keys == {"secret"}
    assert source.current.models[0].routes[0].api_keys == ("secret",)
    for environ in ({}, {"GPU_KEY": " "}, {"GPU_KEY": "two\nlines"}):
        with pytest.raises(SetupError, match="--upstream-key-env") as refused:
            configured_models(config, environ, servers.fetch)
        assert "GPU_KEY" not in refused.value.message


async def test_an_upstream_url_must_be_one() -> None:
    with pytest.raises(SetupError, match="http"):
        UpstreamSource([Upstream("gpu:2")], Servers().fetch)
