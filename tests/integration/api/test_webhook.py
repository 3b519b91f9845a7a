"""/v1/batch_webhook over HTTP: its objects, who may change it, which URLs it takes, and the list of deliveries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import Answer, TestGateway, start_gateway
from tests.people import set_role

from ebbtide.accounts.accounts import find_account
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.clock import SystemClock
from ebbtide.delivery.webhooks import Registrar, set_webhook
from ebbtide.dialects.openai.webhook import SetWebhook
from ebbtide.errors import Forbidden
from ebbtide.settings.snapshot import Settings

PATH = "/v1/batch_webhook"
URL = "https://8.8.8.8/hook"  # an address, so that no name is looked up; nothing is sent there


@pytest.fixture
async def own_key(gateway: TestGateway) -> str:
    return await gateway.new_key("someone", Role.INTERNAL)


async def put(gateway: TestGateway, *, key: str = "", **body: Any) -> Answer:
    return await gateway.call("PUT", PATH, key=key, json=body)


async def test_set_up_shown_and_removed(gateway: TestGateway) -> None:
    made = (await put(gateway, url=URL)).json
    assert made["secret"].startswith("whsec_")
    shown = (await gateway.call("GET", PATH)).json
    assert shown == {key: value for key, value in made.items() if key != "secret"}
    assert shown | {"created_at": 0, "updated_at": 0} == {
        "object": "batch_webhook",
        "url": URL,
        "enabled": True,
        "created_at": 0,
        "updated_at": 0,
        "paused_until": None,
    }
    removed = await gateway.call("DELETE", PATH)
    assert (removed.status, removed.json) == (200, {"object": "batch_webhook", "deleted": True})
    for method in ("GET", "DELETE"):
        assert (await gateway.call(method, PATH)).status == 404
    assert (await put(gateway, url=URL)).json["secret"] != made["secret"]


async def test_the_secret_is_shown_when_it_is_new_and_only_then(gateway: TestGateway) -> None:
    first = (await put(gateway, url=URL)).json["secret"]
    changed = (await put(gateway, url=URL + "2")).json
    assert changed["url"] == URL + "2"
    for answer in (changed, (await put(gateway, enabled=False)).json, (await put(gateway, rotate_secret=False)).json):
        assert "secret" not in answer
    rotated = (await put(gateway, rotate_secret=True)).json["secret"]
    assert rotated != first
    assert (await put(gateway, url=URL, rotate_secret=True)).json["secret"] not in (first, rotated)


async def test_what_is_left_out_stays(gateway: TestGateway) -> None:
    await put(gateway, url=URL)
    assert (await put(gateway, enabled=False)).json["enabled"] is False
    kept = (await put(gateway, url=URL + "2", enabled=None, rotate_secret=None)).json
    assert (kept["enabled"], kept["url"]) == (False, URL + "2")
    on = (await put(gateway, enabled=True)).json
    assert (on["enabled"], on["url"]) == (True, URL + "2")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "url"),
        ({"enabled": True}, "url"),
        ({"url": 1}, "url"),
        ({"url": URL, "enabled": "yes"}, "enabled"),
        ({"url": URL, "rotate_secret": 1}, "rotate_secret"),
        ({"url": "http://example.com/"}, "url"),
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "https://[::1]/"}, "url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "url"),
        ({"url": "https://169.254.169.254/latest"}, "url"),
        ({"url": "https://2130706433/"}, "url"),
        ({"url": "https://localhost/"}, "url"),
        ({"url": "https://a:b@8.8.8.8/"}, "url"),
        ({"url": ""}, "url"),
        ({"url": "https://no\u0000de/"}, "url"),
    ],
)
async def test_what_is_refused_is_not_stored(gateway: TestGateway, body: dict[str, Any], param: str) -> None:
    answer = await gateway.call("PUT", PATH, json=body)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert (await gateway.call("GET", PATH)).status == 404


@pytest.mark.parametrize("raw", [b"", b"nonsense", b"[]", b'{"url":', b"\xff", b"[" * 10_000])
async def test_a_body_that_is_no_object(gateway: TestGateway, raw: bytes) -> None:
    assert (await gateway.call("PUT", PATH, data=raw)).status == 400


async def test_a_refused_change_changes_nothing(gateway: TestGateway) -> None:
    await put(gateway, url=URL)
    before = (await gateway.call("GET", PATH)).json
    assert (await put(gateway, url="https://10.0.0.1/", rotate_secret=True, enabled=False)).status == 400
    assert (await gateway.call("GET", PATH)).json == before


async def test_below_the_role_nothing_is_set_but_all_is_shown_and_removed(gateway: TestGateway, own_key: str) -> None:
    await put(gateway, key=own_key, url=URL)
    before = (await gateway.call("GET", PATH, key=own_key)).json
    account = await find_account(gateway.database, "someone")
    await set_role(gateway.database, account.id, Role.PRO)
    for body in ({"url": URL + "2"}, {"rotate_secret": True}, {"enabled": True}, {"enabled": False}, {}, {"url": 1}):
        assert (await gateway.call("PUT", PATH, key=own_key, json=body)).status == 403, "at once, with no cached role"
    assert (await gateway.call("GET", PATH, key=own_key)).json == before
    assert (await gateway.call("GET", f"{PATH}/events", key=own_key)).status == 200
    assert (await gateway.call("DELETE", PATH, key=own_key)).status == 200
    await set_role(gateway.database, account.id, Role.INTERNAL)
    assert (await put(gateway, key=own_key, url=URL)).status == 200


async def test_below_the_role_no_name_is_looked_up(gateway: TestGateway, own_key: str) -> None:
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["8.8.8.8"]

    account = await find_account(gateway.database, "someone")
    principal = Principal(account.id, "key", Role.INTERNAL)
    registrar = Registrar(gateway.database, Settings(), resolve)
    now = SystemClock().now()
    await set_role(gateway.database, account.id, Role.FREE)
    with pytest.raises(Forbidden):
        await set_webhook(registrar, principal, SetWebhook("https://hooks.example/"), now)
    assert asked == []
    await set_role(gateway.database, account.id, Role.INTERNAL)
    await set_webhook(registrar, principal, SetWebhook("https://hooks.example/"), now)
    assert asked == ["hooks.example"]


async def test_a_webhook_is_its_accounts_own(gateway: TestGateway, own_key: str) -> None:
    await put(gateway, url=URL)
    assert (await gateway.call("GET", PATH, key=own_key)).status == 404
    assert (await gateway.call("DELETE", PATH, key=own_key)).status == 404
    mine = (await put(gateway, key=own_key, url=URL + "mine")).json
    assert mine["url"] == URL + "mine"
    assert (await gateway.call("GET", PATH)).json["url"] == URL


async def add_events(gateway: TestGateway, account: str, count: int) -> list[str]:
    """Newest first."""
    async with gateway.database.transaction() as conn:
        rows = await conn.fetch(
            "insert into batch_webhook_events (id, account_id, batch_id, type, created_at, next_at, attempts, "
            "last_status, last_error) select 'evt_' || n || a.id, a.id, 'batch_' || n, 'batch.completed', "
            "timestamptz '2026-01-01 00:00Z' + n * interval '1 minute', timestamptz '2026-01-02 00:00Z', 2, 503, "
            "'Answered with status 503' from generate_series(1, $2) n, accounts a where a.name = $1 returning id",
            account,
            count,
        )
    return [row["id"] for row in reversed(rows)]


async def test_deliveries_are_listed_newest_first_in_pages(gateway: TestGateway, own_key: str) -> None:
    ids = await add_events(gateway, "someone", 5)
    await add_events(gateway, "admin", 2)
    listed = (await gateway.call("GET", f"{PATH}/events", key=own_key)).json
    assert [event["id"] for event in listed["data"]] == ids
    assert (listed["object"], listed["has_more"], listed["last_id"]) == ("list", False, ids[-1])
    assert listed["data"][0] == {
        "id": ids[0],
        "object": "batch_webhook.event",
        "type": "batch.completed",
        "created_at": 1_767_225_900,
        "batch_id": "batch_5",
        "state": "pending",
        "attempts": 2,
        "next_attempt_at": 1_767_312_000,
        "delivered_at": None,
        "last_status": 503,
        "last_error": "Answered with status 503",
    }
    page = (await gateway.call("GET", f"{PATH}/events?limit=2&after={ids[0]}", key=own_key)).json
    assert ([event["id"] for event in page["data"]], page["has_more"]) == (ids[1:3], True)
    last = (await gateway.call("GET", f"{PATH}/events?limit=2&after={ids[2]}", key=own_key)).json
    assert ([event["id"] for event in last["data"]], last["has_more"]) == (ids[3:], False)


async def test_a_cursor_that_is_none_of_ones_own(gateway: TestGateway, own_key: str) -> None:
    (foreign,) = await add_events(gateway, "admin", 1)
    for query in (f"after={foreign}", "after=evt_none", "limit=0", "limit=101", "limit=x"):
        assert (await gateway.call("GET", f"{PATH}/events?{query}", key=own_key)).status == 400


async def test_without_batches_there_are_no_webhooks(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_ENABLED": "off"}) as gateway:
        for method, path in (("PUT", PATH), ("GET", PATH), ("DELETE", PATH), ("GET", f"{PATH}/events")):
            assert (await gateway.call(method, path, json={"url": URL})).status == 404


@pytest.fixture
async def private_gateway(database_url: str, models: Path) -> AsyncIterator[TestGateway]:
    environ = {"BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        yield gateway


async def test_private_targets_where_they_are_allowed(private_gateway: TestGateway) -> None:
    for url in ("https://localhost:8443/", "http://127.0.0.1:9/", "https://[::1]/"):
        assert (await put(private_gateway, url=url)).json["url"] == url
    for url in ("https://169.254.169.254/", "https://0.0.0.0/", "https://2130706433/"):
        assert (await put(private_gateway, url=url)).status == 400
