"""`ebbtide batch submit` against a whole gateway: a run repeated with its key makes no second batch."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.gateway import chat_model, models_file, request_line, start_gateway

from ebbtide.cli import exits
from ebbtide.cli.app import run


async def test_a_submission_repeated_with_its_key_prints_the_first_batch(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    models = models_file(tmp_path, chat_model())
    requests = tmp_path / "requests.jsonl"
    requests.write_bytes(msgspec.json.encode(request_line("a")) + b"\n")

    async def submit(*arguments: str) -> tuple[int, str]:
        status = await asyncio.to_thread(run, ["batch", "submit", str(requests), *arguments])
        return status, capsys.readouterr().out

    async with start_gateway(database_url, models, role="api") as gateway:
        monkeypatch.setenv("EBBTIDE_URL", gateway.url)
        monkeypatch.setenv("EBBTIDE_API_KEY", gateway.admin_key)
        assert (await submit())[0] == exits.OK  # the same content, as another file
        first = await submit("--idempotency-key", "once")
        assert first[0] == exits.OK
        assert await submit("--idempotency-key", "once") == first
        assert (await submit("--idempotency-key", "once", "--metadata", "run=2"))[0] == exits.REFUSED
        requests.write_bytes(msgspec.json.encode(request_line("b")) + b"\n")
        assert (await submit("--idempotency-key", "once"))[0] == exits.REFUSED
        batches = (await gateway.call("GET", "/v1/batches")).json["data"]
        assert len(batches) == 2
        files = (await gateway.call("GET", "/v1/files")).json["data"]
        assert {file["id"] for file in files} == {batch["input_file_id"] for batch in batches}
