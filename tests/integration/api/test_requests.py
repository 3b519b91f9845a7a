"""/admin/recent-requests, /admin/request-metrics, a batch's stored requests and /user/usage over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server, database_at
from tests.fake_upstream import Behaviour, FakeUpstream
from tests.gateway import TestGateway, chat_model, models_file, request_line, start_gateway, until

from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

RECENT, METRICS = "/admin/recent-requests", "/admin/request-metrics"
ROW = """insert into api_logs (at, account_id, key_id, source, target, model, status_code, error_code, input_tokens,
                             first_token_ms, attempts)
         values ($1, $2, 'k', 'interactive', 'chat', $3, $4, $5, 7, 12, 2)"""


@pytest.fixture
async def gateway(
    database_url: str, listen_url: str, tmp_path: Path, upstream: FakeUpstream
) -> AsyncIterator[TestGateway]:
    models = models_file(tmp_path, chat_model(upstream.url, pricing={"input": 1, "output": 2}))
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def run_batch(gateway: TestGateway, key: str, count: int = 3) -> Any:
    """A batch of `count` requests, the last of which fails, once it is over."""
    lines = [request_line(f"r{n}", text="FAIL" if n == count - 1 else f"secret {n}") for n in range(count)]
    created = await gateway.call("POST", "/v1/batches", key=key, json={"requests": lines})
    assert created.status == 200, created.body

    async def ended() -> Any:
        batch = (await gateway.call("GET", f"/v1/batches/{created.json['id']}", key=key)).json
        return batch if batch["status"] == "completed" else None

    return await until(ended, within=60)


async def put(gateway: TestGateway, ago: timedelta, account: str = "a", model: str = "chat-1", **row: Any) -> datetime:
    at = SystemClock().now() - ago
    async with gateway.database.connection() as conn:
        await conn.execute(ROW, at, account, model, row.get("status", 200), row.get("error"))
    return at


async def listed(gateway: TestGateway, **params: Any) -> list[Any]:
    answer = await gateway.call("GET", RECENT, params={name: str(value) for name, value in params.items()})
    assert answer.status == 200, answer.body
    return list(answer.json["data"])


async def test_a_batch_is_in_the_log_the_bars_and_its_owners_usage(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    upstream.decide = lambda call: Behaviour(status=400) if b"FAIL" in call.body else Behaviour()
    key = await gateway.new_key("owner", Role.INTERNAL)
    user = (await gateway.call("GET", "/user", key=key)).json
    await gateway.call("PATCH", f"/admin/accounts/{user['account']['id']}", json={"monthly_quota_usd": 5})
    await gateway.call("PATCH", f"/admin/keys/{user['key_id']}", json={"daily_budget_usd": 2})
    batch = await run_batch(gateway, key)
    rows = await listed(gateway, source="batch", batch_id=batch["id"])
    assert await listed(gateway, batch_id=batch["id"]) == rows
    assert await listed(gateway, source="interactive") == []
    assert sorted(row["outcome"] for row in rows) == ["completed", "completed", "failed"]
    [broken] = await listed(gateway, error="any")
    assert (broken["status"], broken["attempt"], broken["attempts"], broken["account_name"]) == (400, 1, None, "owner")
    assert broken["batch_id"] == batch["id"]
    assert sum(row["prompt_tokens"] or 0 for row in rows) == batch["usage"]["input_tokens"]
    assert sum(row["cost_usd"] or 0 for row in rows) == pytest.approx(batch["cost_usd"])

    metrics = (await gateway.call("GET", METRICS, params={"source": "interactive"})).json
    assert [window["window"] for window in metrics["windows"]] == ["1h", "6h", "24h", "7d", "30d", "90d"]
    for window in metrics["windows"]:
        told = (window["requests"], window["error_requests"], window["batch_requests"], window["batch_error_requests"])
        assert told == (0, 0, 3, 1)
        bars = [(bar["batch_request_count"], bar["batch_error_count"]) for bar in window["bars"]]
        assert tuple(map(sum, zip(*bars, strict=True))) == (3, 1)
        for bar in window["bars"]:
            if bar["batch_request_count"]:
                inside = {"start_time": bar["start_time"], "end_time": bar["end_time"], "source": "batch"}
                assert len(await listed(gateway, **inside)) == bar["batch_request_count"]
    [one] = (await gateway.call("GET", METRICS, params={"window": "1h", "model": "chat-1"})).json["windows"]
    assert (one["requests"], one["error_requests"], one["bar_seconds"]) == (3, 1, 60)
    assert one["cost_usd"] == pytest.approx(batch["cost_usd"])

    usage = (await gateway.call("GET", "/user/usage", key=key)).json
    assert usage["cost_usd"] == pytest.approx(batch["cost_usd"])
    assert sum(use["requests"] for use in usage["models"]) == 3
    assert sum(use["prompt_tokens"] for use in usage["keys"]) == batch["usage"]["input_tokens"]
    other = await gateway.new_key("other", Role.FREE)
    only = {"source": "interactive", "model": "chat-1", "first_day": usage["first_day"], "last_day": usage["last_day"]}
    narrowed = (await gateway.call("GET", "/user/usage", key=key, params=only)).json
    assert (narrowed["cost_usd"], narrowed["keys"], narrowed["models"]) == (0, [], [])
    day, month = usage["spending"]["day"], usage["spending"]["month"]
    assert day["spent_usd"] == pytest.approx(batch["cost_usd"])
    assert (day["limit_usd"], month["limit_usd"], day["remaining_usd"]) == (None, 5.0, None)
    assert month["remaining_usd"] == pytest.approx(5 - batch["cost_usd"])
    [own] = usage["spending"]["keys"]
    assert (own["day"]["limit_usd"], own["day"]["spent_usd"]) == (2.0, day["spent_usd"])
    assert datetime.fromisoformat(day["resets_at"]) - SystemClock().now() <= timedelta(days=1)
    assert datetime.fromisoformat(month["resets_at"]).day == 1

    empty = (await gateway.call("GET", "/user/usage", key=other)).json
    assert (empty["cost_usd"], empty["keys"], empty["models"]) == (0, [], [])


async def test_every_filter_and_the_pages(gateway: TestGateway) -> None:
    hour, day = timedelta(hours=1), timedelta(days=1)
    old = await put(gateway, 80 * day)
    await put(gateway, 100 * day)
    await put(gateway, 2 * hour, "b", status=500, error="upstream_error")
    middle = await put(gateway, hour, model="chat-2")
    newest = await put(gateway, timedelta(0), status=429, error="rate")
    found = [datetime.fromisoformat(row["at"]) for row in await listed(gateway)]
    assert found[0] == newest
    assert len(found) == 3
    assert [row["account_id"] for row in await listed(gateway, account_id="b")] == ["b"]
    assert [row["model"] for row in await listed(gateway, model="chat-2")] == ["chat-2"]
    assert [row["error"] for row in await listed(gateway, status=500)] == ["upstream_error"]
    assert [row["error"] for row in await listed(gateway, error="rate")] == ["rate"]
    assert len(await listed(gateway, error="any")) == 2
    assert [row["status"] for row in await listed(gateway, error="none")] == [200]
    [row] = await listed(gateway, model="chat-2")
    assert (row["attempts"], row["first_token_ms"], row["prompt_tokens"], row["cost_usd"]) == (2, 12, 7, None)

    assert len(await listed(gateway, lookback_hours=1)) == 1
    assert len(await listed(gateway, lookback_hours=81 * 24)) == 4
    assert len(await listed(gateway, start_time=old.isoformat())) == 4  # the start is included
    assert len(await listed(gateway, start_time="0001-01-02T00:00:00Z")) == 4  # no further than 90 days
    between = {"start_time": old.isoformat(), "end_time": middle.isoformat()}
    assert len(await listed(gateway, **between)) == 2  # the end is not
    elsewhere = middle.astimezone(timezone(timedelta(hours=5, minutes=45)))
    rows = await gateway.call("GET", f"{RECENT}?start_time={elsewhere.isoformat()}")  # its plus sign reads as a blank
    assert [row["model"] for row in rows.json["data"]] == ["chat-1", "chat-2"]

    pages, after = [], None
    while True:
        params = {"limit": "1", "start_time": old.isoformat()} | ({} if after is None else {"after": after})
        page = (await gateway.call("GET", RECENT, params=params)).json
        pages += [row["id"] for row in page["data"]]
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert pages == [row["id"] for row in await listed(gateway, start_time=old.isoformat())]


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (RECENT, "source", "webhook"),
        (RECENT, "start_time", "2026-03-02T12:00:00"),
        (RECENT, "start_time", "yesterday"),
        (RECENT, "start_time", "0001-01-01T00:00:00+14:00"),
        (RECENT, "end_time", "9999-12-31T23:59:59-14:00"),
        (RECENT, "end_time", "2026-03-02"),
        (RECENT, "lookback_hours", "2161"),
        (RECENT, "status", "1000"),
        (RECENT, "limit", "501"),
        (RECENT, "after", "log_1"),
        (RECENT, "after", "log_999999999999999999_1"),
        (RECENT, "after", "audit_1"),
        (RECENT, "model", "a\0b"),
        (METRICS, "source", "all"),
        (METRICS, "window", "2h"),
        ("/user/usage", "days", "91"),
        ("/user/usage", "first_day", "2026-02-30"),
        ("/user/usage", "first_day", "2020-01-01"),
        ("/user/usage", "first_day", "9999-12-31"),
        ("/user/usage", "last_day", "soon"),
        ("/user/requests", "after", "log_1"),
    ],
)
async def test_a_bad_filter_is_named(api: TestGateway, path: str, name: str, value: str) -> None:
    answer = await api.call("GET", path, params={name: value})
    assert (answer.status, answer.error["param"]) == (400, name)


async def test_an_end_before_its_start_is_refused(api: TestGateway) -> None:
    times = {"start_time": "2026-03-02T12:00:00Z", "end_time": "2026-03-02T13:00:00+02:00"}
    answer = await api.call("GET", RECENT, params=times)
    assert (answer.status, answer.error["param"]) == (400, "end_time")


async def test_the_log_is_for_administrators(api: TestGateway) -> None:
    for role in (Role.FREE, Role.PRO, Role.INTERNAL):
        key = await api.new_key(f"one-{role.name}", role)
        for path in (RECENT, METRICS, "/admin/batch/jobs/batch_x/requests"):
            assert (await api.call("GET", path, key=key)).status == 403
            assert (await api.call("GET", path, key=None)).status == 401


async def test_stored_requests_are_shown_where_that_is_allowed_and_noted(
    gateway: TestGateway, upstream: FakeUpstream
) -> None:
    upstream.decide = lambda call: Behaviour(status=400) if b"FAIL" in call.body else Behaviour()
    key = await gateway.new_key("owner", Role.INTERNAL)
    batch = await run_batch(gateway, key)
    path = f"/admin/batch/jobs/{batch['id']}/requests"
    refused = await gateway.call("GET", path)
    assert (refused.status, refused.error["code"]) == (403, "content_not_stored")
    assert await read_deeds(gateway) == []

    await gateway.call("PATCH", "/admin/config", json={"DB_STORE_FULL_CONTENT": True})
    first = (await gateway.call("GET", path, params={"limit": "2"})).json
    assert [row["custom_id"] for row in first["data"]] == ["r0", "r1"]
    assert [row["request"]["messages"][0]["content"] for row in first["data"]] == ["secret 0", "secret 1"]
    assert first["data"][0]["response"]["body"]["choices"]
    last = (await gateway.call("GET", path, params={"limit": "2", "after": first["last_id"]})).json
    [broken] = last["data"]
    assert (broken["status"], broken["response"], broken["error"]["status"]) == ("failed", None, 400)
    assert (first["has_more"], last["has_more"]) == (True, False)
    owner = (await listed(gateway, batch_id=batch["id"]))[0]["account_id"]
    assert [(deed["subject"], deed["account_id"]) for deed in await read_deeds(gateway)] == [(batch["id"], owner)] * 2

    assert (await gateway.call("GET", path, params={"after": "r0"})).error["param"] == "after"
    assert (await gateway.call("GET", "/admin/batch/jobs/batch_none/requests")).status == 404
    assert (await gateway.call("GET", path, key=key)).status == 403
    assert len(await read_deeds(gateway)) == 2


async def read_deeds(gateway: TestGateway) -> list[Any]:
    entries = (await gateway.call("GET", "/admin/audit")).json["data"]
    return [entry for entry in entries if entry["action"] == "batch.requests.read"]


@pytest.fixture(scope="module")
async def api(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestGateway]:
    """The HTTP side alone, for what is refused."""
    models = models_file(tmp_path_factory.mktemp("models"), chat_model())
    async with start_gateway(shared_url, models, role="api") as gateway:
        yield gateway


@pytest.fixture(scope="module")
async def shared_url(server: Server, template: str) -> AsyncIterator[str]:
    async with server.database(template) as name:
        yield database_at(server.url, name)
