"""A gateway with a week behind it, for pictures of the console: accounts, models, batches in every state, a log.

What can be made by the product is made by it: accounts, keys, batches and their results. Only the past is written.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import models_file, until
from tests.people import create_account, create_key
from tests.processes import GatewayProcess, Processes
from tests.webhook_receiver import Receiver

from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.clock import SystemClock
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import migrate
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import parse_queries

PASSWORD = "a picture of the tide"
PAST_REQUESTS = 120_000
ACCOUNTS = (
    ("ada", Role.ADMIN, "ada@example.org"),
    ("research", Role.INTERNAL, "research@example.org"),
    ("support-desk", Role.INTERNAL, "support@example.org"),
    ("contracts", Role.INTERNAL, "contracts@example.org"),
    ("translation", Role.PRO, None),
    ("intern", Role.FREE, None),
)
ENVIRON = {
    "BATCH_MODEL_CONCURRENCY": "24",
    "BATCH_MAX_ACTIVE_PER_USER": "100",
    "DB_STORE_FULL_CONTENT": "on",
    "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on",
}
_Q = parse_queries(Path(__file__).with_name("showcase.sql").read_text(), "docs/showcase.sql")
_SUBJECTS = (
    "a delivery that came late",
    "an invoice with two totals",
    "a password that was reset twice",
    "a broken zip",
)
_CLAUSES = ("termination", "liability", "warranty", "governing law", "confidentiality")
_PACE = random.Random(1)  # so that a batch goes on steadily


@dataclass(frozen=True)
class Member:
    """One of the accounts, with an API key."""

    name: str
    account_id: str
    key_id: str
    key: str


@dataclass(frozen=True)
class Showcase:
    """The gateway, who has an account at it, and ids of the batches worth showing."""

    gateway: GatewayProcess
    members: dict[str, Member]
    running: str
    with_issues: str

    async def call(self, member: str, method: str, path: str, **sent: Any) -> Any:
        answer = await self.gateway.call(method, path, key=self.members[member].key, **sent)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body!r}")
        return answer.json


@asynccontextmanager
async def showcase(folder: Path) -> AsyncIterator[Showcase]:
    """The whole of it, in `folder`, which others may pass through, as root's database has to; gone at the end."""
    async with (
        EmbeddedServer(folder / "data", fsync=False) as server,
        await Database.connect(server.url) as database,
        FakeUpstream(record=False) as upstream,
        Receiver(None, "127.0.0.1") as receiver,
    ):
        await migrate(database)
        upstream.decide = decide
        members = {name: await _join(database, name, role) for name, role, _ in ACCOUNTS}
        environ = ENVIRON | {"EBBTIDE_DATABASE_URL": server.url}
        async with Processes(folder, _models(folder, upstream.url), **environ) as processes:
            gateway = await processes.start()
            yield await _fill(Showcase(gateway, members, "", ""), database, receiver)


def decide(request: Received) -> Behaviour | None:
    """Slow on the model whose batch is shown running, down on one route, now and then a refusal, a cache that works."""
    model = request.json.get("model", "")
    if model == "qwen3-235b":
        return Behaviour(latency=_PACE.uniform(2, 6), cached=9)
    if model == "down":
        return Behaviour(do="reset")
    text = str(request.json.get("messages", ""))
    if "behave" in text:
        return None
    return Behaviour(latency=0.02, cached=12)


async def _join(database: Database, name: str, role: Role) -> Member:
    now = SystemClock().now()
    account = await create_account(database, name, role, now)
    key, secret = await create_key(database, account.id, name=f"{name}-programs", now=now)
    sessions = Sessions(database, SystemClock(), SettingsSource(Settings()), Passwords())
    await sessions.set_password(account.id, PASSWORD, "cli:root")
    return Member(name, account.id, key.id, secret)


def _models(folder: Path, url: str) -> Path:
    def model(name: str, prices: tuple[float, float], *routes: dict[str, Any], **more: Any) -> dict[str, Any]:
        pricing = {"input": prices[0], "output": prices[1], "cached_input": prices[0] / 10}
        return {"id": name, "type": "chat", "pricing": pricing, "routes": list(routes)} | more

    def route(name: str, kind: str = "vllm", **more: Any) -> dict[str, Any]:
        return {"id": name, "kind": kind, "base_url": url} | more

    return models_file(
        folder,
        model("gpt-oss-120b", (0.1, 0.5), route("gpu-a"), route("gpu-b", weight=2), aliases=["gpt-oss"]),
        model("qwen3-235b", (0.2, 0.8), route("gpu-c"), batch_price_factor=0.5, context_length=131072),
        model(
            "llama-3.3-70b",
            (0.15, 0.6),
            route("gpu-d", "sglang"),
            route("old-box", "llamacpp", model="down"),
            route("rented", "openai", deployment_type="provider_api", reserve=True),
        ),
        {
            "id": "bge-m3",
            "type": "embedding",
            "routes": [route("cpu", "ollama")],
            "pricing": {"input": 0.01, "output": 0},
        },
        auto={"auto": ["gpt-oss-120b", "llama-3.3-70b"], "auto-large": ["qwen3-235b"]},
    )


async def _fill(empty: Showcase, database: Database, receiver: Receiver) -> Showcase:
    for name, _, email in ACCOUNTS:
        change = {"email": email} | (
            {"daily_quota_usd": "25", "monthly_quota_usd": "9000"} if name == "research" else {}
        )
        await empty.call("ada", "PATCH", f"/admin/accounts/{empty.members[name].account_id}", json=change)

    async def told_of_both() -> bool:
        return len(receiver.got) >= 2

    webhook = {"url": f"http://127.0.0.1:{receiver.port}/ended-batches"}
    await empty.call("research", "PUT", "/v1/batch_webhook", json=webhook)
    done = await _batch(empty, "research", "Nightly evaluation", "gpt-oss-120b", 240)
    issues = await _batch(empty, "contracts", "Contract clauses", "llama-3.3-70b", 160, bad=9)
    tickets = await _batch(empty, "support-desk", "Ticket triage, November", "gpt-oss-120b", 120)
    mine = await _batch(empty, "research", "Abstracts to keywords", "llama-3.3-70b", 90, bad=3)
    gone = await _batch(empty, "support-desk", "Ticket triage, wrong prompt", "qwen3-235b", 400)
    await empty.call("support-desk", "POST", f"/v1/batches/{gone}/cancel")
    for owner, batch in (("research", done), ("contracts", issues), ("support-desk", tickets), ("research", mine)):
        empty.gateway.key = empty.members[owner].key
        await empty.gateway.ended(batch)
    await until(told_of_both)
    running = await _batch(empty, "research", "Weekly paper summaries", "qwen3-235b", 1_500)
    late = await _batch(empty, "support-desk", "Sentiment of reviews", "qwen3-235b", 900)
    await _talk(empty)
    await _past(empty, database, done, {done: 30, issues: 9, tickets: 5, mine: 3})
    async with database.transaction() as conn:
        await conn.execute(_Q["close_window"], late, 3)
    await _choices(empty)
    return Showcase(empty.gateway, empty.members, running, mine)


async def _batch(to: Showcase, owner: str, name: str, model: str, requests: int, *, bad: int = 0) -> str:
    drawn = random.Random(name)
    lines = []
    for number in range(requests):
        text = f"Sum up in one sentence, its {drawn.choice(_CLAUSES)} clause included: {drawn.choice(_SUBJECTS)}."
        if number % 17 == 3 and bad > 0:
            bad -= 1
            text = "behave:status=400"
        body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 200}
        lines.append({"custom_id": f"{name.split()[0].lower()}-{number + 1:04}", "body": body})
    created = await to.call(owner, "POST", "/v1/batches", json={"requests": lines, "metadata": {"name": name}})
    return str(created["id"])


async def _talk(to: Showcase) -> None:
    """Some interactive requests, with what was said."""
    drawn = random.Random(3)
    for number in range(24):
        member = drawn.choice(("research", "support-desk", "translation", "intern"))
        question = f"A customer writes about {_SUBJECTS[number % len(_SUBJECTS)]}. Answer in two friendly sentences."
        model = drawn.choice(("gpt-oss-120b", "gpt-oss-120b", "llama-3.3-70b"))
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        # Some of them meet the route that is down, and fail, as some do.
        await to.gateway.call("POST", "/v1/chat/completions", key=to.members[member].key, json=body)


async def _past(to: Showcase, database: Database, batch: str, ages: dict[str, int]) -> None:
    who = [to.members[name] for name in ("research", "support-desk", "contracts", "translation", "ada")]
    accounts, keys = [member.account_id for member in who], [member.key_id for member in who]
    async with database.transaction() as conn:
        await conn.execute(_Q["past_requests"], PAST_REQUESTS, accounts, keys, batch)
        await conn.execute(_Q["past_spend"], accounts, keys)
        for aged, hours in ages.items():
            await conn.execute(_Q["date_back"], aged, hours)


async def _choices(to: Showcase) -> None:
    """What an administrator decided: a cap, a permission, settings, a suspended account."""
    route = "/admin/routing/provider-route-batch/llama-3.3-70b/rented"
    await to.call("ada", "PATCH", "/admin/batch/models/gpt-oss-120b", json={"max_concurrency": 32})
    await to.call("ada", "PATCH", route, json={"batch_allowed": True})
    await to.call("ada", "PATCH", "/admin/config", json={"BATCH_RETENTION_DAYS": 14, "BATCH_MIN_ROLE": "pro"})
    account = to.members["intern"].account_id
    await to.call("ada", "PATCH", f"/admin/accounts/{account}", json={"state": "suspended"})
