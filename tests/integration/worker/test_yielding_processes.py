"""Two real gateway processes on one database: interactive requests at one of them stop the batch work of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import chat_model, models_file, request_line, until
from tests.processes import GatewayProcess, Processes

pytestmark = pytest.mark.processes

CAP = 8
WITHIN = 2.0  # seconds that starts may take to stop, and to begin again
LASTS = 5.0  # seconds that each interactive request takes


class Seen:
    """What the upstream saw; times are of its clock."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self._upstream = upstream
        upstream.decide = lambda received: Behaviour(latency=LASTS if received.text == "now" else 0.2)

    def batch(self) -> list[float]:
        """When batch requests started."""
        return [received.at for received in self._upstream.requests if received.text != "now"]

    def interactive(self) -> list[Received]:
        return [received for received in self._upstream.requests if received.text == "now"]

    def batch_starts(self, after: float, before: float) -> list[float]:
        return [at for at in self.batch() if after < at < before]


async def ask(gateway: GatewayProcess, count: int) -> None:
    """That many interactive requests at once, until all are answered."""
    body = {"model": "chat-1", "messages": [{"role": "user", "content": "now"}]}
    calls = [gateway.call("POST", "/v1/chat/completions", json=body) for _ in range(count)]
    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}


async def test_from_no_interactive_requests_to_the_cap_and_back(
    database_url: str, listen_url: str, tmp_path: Path
) -> None:
    where = {"EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
    async with FakeUpstream() as upstream:
        models = models_file(tmp_path, chat_model(upstream.url))
        seen = Seen(upstream)
        async with Processes(tmp_path, models, BATCH_MODEL_CONCURRENCY=str(CAP), **where) as processes:
            working = await processes.start()
            asked = await processes.start("--role", "api")
            batch = await working.create([request_line(f"r{n}", text="later") for n in range(2_000)])
            await until(lambda: full(upstream))

            await ask(asked, CAP)
            risen = max(received.at for received in seen.interactive())
            fallen = min(received.done_at or 0.0 for received in seen.interactive())
            all_done = max(received.done_at or 0.0 for received in seen.interactive())
            assert seen.batch_starts(risen - 1, risen)
            assert fallen - risen > WITHIN + 1
            assert seen.batch_starts(risen + WITHIN, fallen) == []

            await until(lambda: full(upstream))
            assert seen.batch_starts(all_done, all_done + WITHIN)
            await working.call("POST", f"/v1/batches/{batch}/cancel")
            assert (await working.stop(), await asked.stop()) == (0, 0)


async def full(upstream: FakeUpstream) -> bool:
    return upstream.in_flight == CAP
