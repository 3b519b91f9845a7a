"""Interactive requests over two real gateway processes: caps, quotas, and a row in the log for each of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fake_upstream import FakeUpstream
from tests.gateway import chat_model, models_file, until
from tests.people import create_account, create_key
from tests.processes import GatewayProcess, Processes

from ebbtide.accounts.quotas import Amounts, Cap, set_budgets, set_concurrency, set_quotas
from ebbtide.accounts.roles import Role
from ebbtide.storage.pool import Database

pytestmark = pytest.mark.processes
CHAT = "/v1/chat/completions"
PRICES = {"input": 1, "output": 2}


@dataclass
class Scene:
    """Two gateways at one upstream, and an account `ada` with one key."""

    database: Database
    upstream: FakeUpstream
    gateways: list[GatewayProcess]
    account: str
    key_id: str
    key: str

    async def chat(self, at: int = 0, *, key: str | None = None, text: str = "Hello", **body: Any) -> tuple[int, Any]:
        messages = [{"role": "user", "content": text}]
        answer = await self.gateways[at].call(
            "POST", CHAT, key=key or self.key, json={"model": "chat-1", "messages": messages} | body
        )
        return answer.status, answer

    async def rows(self, count: int) -> list[Any]:
        """The log's rows, once there are as many."""

        async def there() -> Any:
            rows = await self.fetch("select * from api_logs where source = 'interactive' order by at")
            return rows if len(rows) >= count else None

        found: list[Any] = await until(there)
        return found

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        async with self.database.connection() as conn:
            return list(await conn.fetch(sql, *values))

    async def cap(self, cap: int) -> None:
        await set_concurrency(self.database, self.account, Cap("max_concurrency", cap), "test", datetime.now(UTC))
        await self.settled()

    async def settled(self) -> None:
        """Wait until both gateways have read the account's limits again: each says its cap in its headers."""
        [account] = await self.fetch("select max_concurrency from accounts where id = $1", self.account)
        for at in range(len(self.gateways)):

            async def told(at: int = at) -> bool:
                _, answer = await self.chat(at)
                return bool(answer.headers.get("x-ratelimit-limit-requests") == str(account["max_concurrency"]))

            await until(told)


@pytest.fixture
async def scene(tmp_path: Path, database_url: str, listen_url: str, database: Database) -> AsyncIterator[Scene]:
    async with FakeUpstream() as upstream:
        models = models_file(tmp_path, chat_model(upstream.url, pricing=PRICES, max_output_tokens=1000))
        environ = {"EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
        async with Processes(tmp_path, models, **environ) as processes:
            gateways = [await processes.start("--role", "api") for _ in range(2)]
            now = datetime.now(UTC)
            account = await create_account(database, "ada", Role.INTERNAL, now)
            key, secret = await create_key(database, account.id, now=now)
            yield Scene(database, upstream, gateways, account.id, key.id, secret)


async def test_a_cap_holds_exactly_over_both_and_a_killed_ones_slots_come_back(scene: Scene) -> None:
    await scene.cap(3)
    scene.upstream.latency, scene.upstream.peak = 60.0, 0
    burst = [asyncio.create_task(scene.chat(n % 2)) for n in range(20)]

    async def refused() -> bool:
        return sum(task.done() for task in burst) == 17

    await until(refused)
    assert scene.upstream.in_flight == scene.upstream.peak == 3
    for task in burst:
        if task.done():
            status, answer = task.result()
            assert (status, answer.error["code"]) == (429, "concurrency_limit")
            assert int(answer.headers["retry-after"]) >= 1
            assert "x-should-retry" not in answer.headers
    scene.gateways[1].kill()

    async def lapsed() -> bool:
        scene.upstream.latency = 0
        results = await asyncio.gather(*(scene.chat(0) for _ in range(3)))
        running = scene.upstream.in_flight
        assert running <= 3
        return sum(status == 200 for status, _ in results) >= 3 - running

    await until(lapsed, within=40.0)
    scene.upstream.hurry()
    await asyncio.gather(*burst, return_exceptions=True)


async def test_every_outcome_is_one_row_and_spend_agrees(scene: Scene) -> None:
    expected: Counter[tuple[int, bool]] = Counter()

    async def ask(status: int, streamed: bool = False, logged: int | None = None, **body: Any) -> None:
        got, _ = await scene.chat(**body, stream=streamed)
        assert got == status
        expected[logged or status, streamed] += 1

    for _ in range(20):
        await ask(200)
        await ask(200, streamed=True)
    await ask(404, model="nothing")
    await ask(400, messages=[])
    await ask(500, text="behave:status=500")
    await ask(502, text="behave:reset")
    await ask(200, streamed=True, logged=502, text="behave:stream-reset")
    await _leave(scene, "behave:stall")
    expected[499, False] += 1
    rows = await scene.rows(sum(expected.values()))
    assert Counter((row["status_code"], row["streamed"]) for row in rows) == expected
    known = [row for row in rows if row["status_code"] == 200]
    assert all(row["cost_usd"] > 0 and row["attempts"] == 1 for row in known)
    assert all((row["first_token_ms"] is not None) == row["streamed"] for row in known)
    assert {row["cost_usd"] for row in rows if row["status_code"] in (400, 404, 500)} == {0}
    assert {row["cost_usd"] for row in rows if row["status_code"] in (499, 502)} == {None}
    [spend] = await scene.fetch("select * from spend_days where account_id = $1", scene.account)
    assert (spend["source"], spend["requests"]) == ("interactive", len(known))
    assert spend["cost_usd"] == sum(row["cost_usd"] for row in known)
    for gateway in scene.gateways:
        await scene.chat(scene.gateways.index(gateway))
        assert await gateway.stop() == 0
    assert len(await scene.fetch("select from api_logs")) == len(rows) + 2


async def _leave(scene: Scene, text: str) -> None:
    """Ask, and hang up once the upstream has the request."""
    while not scene.upstream.arrived.empty():
        scene.upstream.arrived.get_nowait()
    async with aiohttp.ClientSession() as http:
        body = {"model": "chat-1", "messages": [{"role": "user", "content": text}]}
        headers = {"Authorization": f"Bearer {scene.key}"}
        task = asyncio.create_task(_post(http, scene.gateways[0].url + CHAT, body, headers))
        await scene.upstream.arrived.get()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _post(http: aiohttp.ClientSession, url: str, body: Any, headers: dict[str, str]) -> None:
    async with http.post(url, json=body, headers=headers) as answer:
        await answer.read()


async def test_a_quota_stops_over_both_within_what_running_ones_may_cost(scene: Scene) -> None:
    now = datetime.now(UTC)
    await scene.cap(100)
    quota, most = Decimal("0.02"), Decimal("0.0021")  # most: 1,000 tokens at 2 USD a million, and the prompt
    await set_quotas(scene.database, scene.account, Amounts(quota, None), "test", now)
    other, secret = await create_key(scene.database, scene.account, now=now)
    await set_budgets(scene.database, other.id, Amounts(Decimal(0), None), "test", now)

    async def refused(key: str, code: str) -> bool:
        status, answer = await scene.chat(1, key=key)
        return status == 429 and bool(answer.error["code"] == code)

    await until(lambda: refused(secret, "key_budget"))
    assert (await scene.chat(1))[0] == 200  # the other key's budget is its own
    scene.upstream.latency, scene.upstream.peak = 60.0, scene.upstream.in_flight
    waves = []
    for _ in range(40):
        waves.append(asyncio.create_task(scene.chat(0)))

    async def some_refused() -> bool:
        return sum(task.done() for task in waves) + scene.upstream.in_flight == 40

    await until(some_refused)
    assert scene.upstream.in_flight * (most - Decimal("0.0001")) <= quota + most
    assert {task.result()[1].error["code"] for task in waves if task.done()} == {"daily_quota"}
    scene.upstream.latency = 0
    scene.upstream.hurry()
    await asyncio.gather(*waves)
    async with scene.database.transaction() as conn:  # as if batches had spent the rest
        await conn.execute(
            "insert into spend_days (account_id, key_id, day, source, requests, cost_usd) "
            "values ($1, $2, $3, 'batch', 1, $4)",
            scene.account,
            scene.key_id,
            datetime.now(UTC).date(),
            quota,
        )
    for at in (0, 1):

        async def stopped(at: int = at) -> bool:
            status, answer = await scene.chat(at)
            return status == 429 and answer.headers.get("x-should-retry") == "false"

        await until(stopped)
