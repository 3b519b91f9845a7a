"""Two real gateway processes on one database: interactive requests at one of them stop the batch work of the other.

That this takes no more than two seconds is measured by bench/yielding.py; here it is waited for, however long it takes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import chat_model, models_file, request_line, until
from tests.processes import GatewayProcess, Processes

pytestmark = pytest.mark.processes

CAP = 8
UNTIL_HURRIED = 600.0


class Seen:
    """What the upstream has in flight; interactive requests last until it is hurried."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        upstream.decide = lambda received: Behaviour(latency=UNTIL_HURRIED if received.text == "now" else 0.2)

    def batch(self) -> list[Received]:
        return [received for received in self._upstream.requests if received.text != "now"]

    async def in_flight(self, *, batch: int, interactive: int) -> bool:
        open_ones = [received for received in self._upstream.requests if received.done_at is None]
        asked = sum(received.text == "now" for received in open_ones)
        return (len(open_ones) - asked, asked) == (batch, interactive)


async def ask(gateway: GatewayProcess) -> int:
    body = {"model": "chat-1", "messages": [{"role": "user", "content": "now"}]}
    return (await gateway.call("POST", "/v1/chat/completions", json=body)).status


async def yields(gateway: GatewayProcess) -> bool:
    """Whether a claim round has found no room beside the interactive requests."""
    model = (await gateway.call("GET", "/admin/batch/models")).json["data"][0]
    return bool(model["blocked_reason"] == "yielding" and model["interactive"] == CAP)


async def test_from_no_interactive_requests_to_the_cap_and_back(
    database_url: str, listen_url: str, tmp_path: Path
) -> None:
    where = {"EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
    async with FakeUpstream() as upstream:
        models = models_file(tmp_path, chat_model(upstream.url), chat_model(upstream.url, name="chat-2"))
        seen = Seen(upstream)
        async with Processes(tmp_path, models, BATCH_MODEL_CONCURRENCY=str(CAP), **where) as processes:
            working = await processes.start()
            asked = await processes.start("--role", "api")
            batch = await working.create([request_line(f"r{n}", text="later") for n in range(2_000)])
            await until(lambda: seen.in_flight(batch=CAP, interactive=0))

            half = [asyncio.create_task(ask(asked)) for _ in range(CAP // 2)]
            await until(lambda: seen.in_flight(batch=CAP // 2, interactive=CAP // 2))
            rest = [asyncio.create_task(ask(asked)) for _ in range(CAP // 2)]
            await until(lambda: yields(asked))
            await until(lambda: seen.in_flight(batch=0, interactive=CAP))
            started = len(seen.batch())
            other = await working.create([request_line("other", model="chat-2", text="another model")])
            assert (await working.ended(other))["status"] == "completed"
            assert len(seen.batch()) == started + 1

            upstream.hurry()
            assert set(await asyncio.gather(*half, *rest)) == {200}
            await until(lambda: seen.in_flight(batch=CAP, interactive=0))
            await working.call("POST", f"/v1/batches/{batch}/cancel")
            assert (await working.stop(), await asked.stop()) == (0, 0)
