"""/admin/accounts, /admin/keys, /admin/batch/jobs and summary, /user: who may, what is refused, what is noted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway import TestGateway, request_line, start_gateway, until

from ebbtide.accounts.roles import Role


async def made(gateway: TestGateway, name: str, **more: Any) -> tuple[str, str]:
    """A new account over HTTP, and a key of it."""
    account = await gateway.call("POST", "/admin/accounts", json={"name": name} | more)
    assert account.status == 200, account.body
    key = await gateway.call("POST", f"/admin/accounts/{account.json['id']}/keys", json={})
    assert key.status == 200, key.body
    return account.json["id"], key.json["key"]


async def test_the_life_of_an_account_is_noted(gateway: TestGateway) -> None:
    account, key = await made(gateway, "Ada", role="pro", daily_quota_usd=2.5)
    path = f"/admin/accounts/{account}"
    assert (await gateway.call("GET", path)).json["daily_quota_usd"] == 2.5
    mail = await gateway.call("PATCH", path, json={"email": " ada@example.org "})
    assert mail.json["email"] == "ada@example.org"
    assert (await gateway.call("GET", "/user", key=key)).json["account"]["email"] == "ada@example.org"
    found = (await gateway.call("GET", "/admin/accounts?search=ADA@")).json["data"]
    assert [one["id"] for one in found] == [account]
    assert (await gateway.call("GET", path)).json["sign_in"] == {"password": False, "identities": []}
    changed = await gateway.call("PATCH", path, json={"name": "Ada L", "daily_quota_usd": None, "state": "suspended"})
    assert (changed.json["name"], changed.json["role"], changed.json["daily_quota_usd"]) == ("Ada L", "pro", None)
    assert (await gateway.call("GET", "/user", key=key)).status == 401
    await gateway.call("PATCH", path, json={"state": "active"})
    assert (await gateway.call("GET", "/user", key=key)).json["account"]["id"] == account
    assert (await gateway.call("DELETE", path)).json["deleted"] is True
    assert (await gateway.call("GET", "/user", key=key)).status == 401
    for method in ("GET", "PATCH", "DELETE"):
        assert (await gateway.call(method, path, json={} if method == "PATCH" else None)).status == 404
    audit = (await gateway.call("GET", f"/admin/audit?account_id={account}")).json["data"]
    actions = ["account.delete", *3 * ["account.change"], "key.create", "account.create"]
    assert [entry["action"] for entry in audit] == actions
    own = (await gateway.call("GET", "/user")).json["account"]["name"]
    named = {(entry["actor_name"], entry["subject_name"], entry["account_name"]) for entry in audit}
    assert named == {(own, "Ada L", "Ada L"), (own, None, "Ada L")}  # of the key, only whose it is
    assert key.encode() not in (await gateway.call("GET", "/admin/audit")).body


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": 1}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x", "role": "king"}, "role"),
        ({"name": "x", "daily_quota_usd": -1}, "daily"),
        ({"name": "x", "nonsense": 1}, "nonsense"),
        ({"name": "x", "email": "nobody"}, "email"),
        ({"name": "x", "email": "a@" + 253 * "b"}, "email"),
        ({}, "name"),
    ],
)
async def test_a_bad_field_is_named(gateway: TestGateway, body: dict[str, Any], param: str) -> None:
    answer = await gateway.call("POST", "/admin/accounts", json=body)
    assert (answer.status, answer.error["param"]) == (400, param)


async def test_an_accounts_own_caps_stand_beside_its_roles(gateway: TestGateway) -> None:
    account, key = await made(gateway, "Cap", role="pro")
    path = f"/admin/accounts/{account}"
    caps = ("max_concurrency", "role_max_concurrency", "batch_max_concurrency", "role_batch_max_concurrency")

    async def told() -> list[Any]:
        account = (await gateway.call("GET", "/user", key=key)).json["account"]
        detail = (await gateway.call("GET", path)).json
        assert account.items() <= {name: value for name, value in detail.items() if name != "sign_in"}.items()
        return [account[name] for name in caps]

    roles = [None, 16, None, 16]
    assert await told() == roles
    await gateway.call("PATCH", "/admin/config", json={"USER_CONCURRENCY_PRO": 9, "BATCH_ROLE_CONCURRENCY_PRO": 5})
    assert (await gateway.call("PATCH", path, json={"max_concurrency": 2, "batch_max_concurrency": 0})).status == 200
    assert await told() == [2, 9, 0, 5]
    changed = (await gateway.call("PATCH", path, json={"max_concurrency": None})).json
    assert [changed[name] for name in caps] == [None, 9, 0, 5]
    detail = (await gateway.call("GET", "/admin/audit?action=account.change")).json["data"][0]["detail"]
    assert detail == {"old": {"max_concurrency": 2}, "new": {"max_concurrency": None}}
    for name in ("max_concurrency", "batch_max_concurrency"):
        for bad in (-1, 100_001, 1.5, "3"):
            assert (await gateway.call("PATCH", path, json={name: bad})).error["param"] == name


async def test_accounts_are_paged_and_searched(gateway: TestGateway) -> None:
    ids = [(await made(gateway, f"page-{n}", role="pro"))[0] for n in range(3)]
    first = (await gateway.call("GET", "/admin/accounts?search=PAGE-&limit=2")).json
    assert ([one["id"] for one in first["data"]], first["has_more"]) == (ids[:2], True)
    rest = (await gateway.call("GET", f"/admin/accounts?search=page-&limit=2&after={first['last_id']}")).json
    assert ([one["id"] for one in rest["data"]], rest["has_more"]) == (ids[2:], False)
    assert (await gateway.call("GET", "/admin/accounts?role=internal&search=page-")).json["data"] == []
    assert (await gateway.call("GET", "/admin/accounts?after=nobody")).error["param"] == "after"
    taken = await gateway.call("PATCH", f"/admin/accounts/{ids[0]}", json={"name": "page-1"})
    assert taken.status == 409


async def test_the_last_administrator_stays(gateway: TestGateway) -> None:
    me = (await gateway.call("GET", "/user")).json["account"]["id"]
    for change in ({"role": "free"}, {"state": "suspended"}):
        assert (await gateway.call("PATCH", f"/admin/accounts/{me}", json=change)).status == 409
    assert (await gateway.call("DELETE", f"/admin/accounts/{me}")).status == 409
    other, _ = await made(gateway, "second", role="admin")
    assert (await gateway.call("PATCH", f"/admin/accounts/{other}", json={"role": "free"})).status == 200


async def test_a_user_lowers_budgets_and_never_raises_them(gateway: TestGateway) -> None:
    account, key = await made(gateway, "Bob")
    mine = (await gateway.call("GET", "/user/keys", key=key)).json["data"][0]["id"]
    await gateway.call("PATCH", f"/admin/keys/{mine}", json={"daily_budget_usd": 5})
    assert (await gateway.call("PATCH", f"/user/keys/{mine}", key=key, json={"daily_budget_usd": 3})).status == 200
    for more in (4, None):
        raised = await gateway.call("PATCH", f"/user/keys/{mine}", key=key, json={"daily_budget_usd": more})
        assert (raised.status, raised.error["param"]) == (400, "daily_budget_usd")
        new = await gateway.call("POST", "/user/keys", key=key, json={"daily_budget_usd": more})
        assert new.status == 400
    second = (await gateway.call("POST", "/user/keys", key=key, json={"name": "two"})).json
    assert (second["daily_budget_usd"], second["account_id"]) == (3, account)
    stranger = await gateway.new_key("stranger", Role.INTERNAL)
    for method in ("PATCH", "DELETE"):
        answer = await gateway.call(method, f"/user/keys/{mine}", key=stranger, json={})
        assert answer.status == 404
    assert (await gateway.call("DELETE", f"/user/keys/{second['id']}", key=key)).json["state"] == "revoked"
    assert (await gateway.call("GET", "/user", key=second["key"])).status == 401


async def test_what_the_navigation_is_told(gateway: TestGateway) -> None:
    free = await gateway.new_key("free", Role.FREE)
    told = (await gateway.call("GET", "/user/batch-capabilities", key=free)).json
    assert (told["status"], told["min_role"]) == ("enabled", "internal")
    assert [model["id"] for model in told["models"]] == ["chat-1", "embed-1"]
    chat = told["models"][0]
    assert (chat["aliases"], chat["available"], chat["live"]) == (["short"], True, True)
    assert chat["targets"] == ["chat", "responses", "messages", "gemini"]
    assert told["models"][1]["targets"] == ["embeddings", "gemini_embed"]
    assert (chat["unsupported_fields"], chat["unknown_fields"], chat["prices"]["batch_factor"]) == ([], True, 1)
    assert {"target": "embeddings", "url": "/v1/embeddings"} in told["targets"]
    limits = told["limits"]
    assert (limits["file_bytes"], limits["line_bytes"], limits["requests_per_batch"]) == (32 << 20, 4 << 20, 50_000)
    assert limits["running_requests"] == 8
    assert (told["window_hours"], told["file_window_hours"], told["retention_days"]) == (24, 24, 7)
    assert told["in_use"] == {"unfinished_batches": 0, "unfinished_requests": 0, "stored_file_bytes": 0}
    assert (told["role_may_submit"], told["has_history"], told["show_entry"]) == (False, False, False)
    await gateway.call("PATCH", "/admin/config", json={"BATCH_MIN_ROLE": "free"})
    assert (await gateway.call("GET", "/user/batch-capabilities", key=free)).json["show_entry"] is True
    await gateway.call("POST", "/v1/batches", key=free, json={"requests": [request_line("a")]})
    await gateway.call("PATCH", "/admin/config", json={"BATCH_MIN_ROLE": "admin"})
    told = (await gateway.call("GET", "/user/batch-capabilities", key=free)).json
    assert (told["role_may_submit"], told["has_history"], told["show_entry"]) == (False, True, True)
    assert (told["in_use"]["unfinished_batches"], told["in_use"]["unfinished_requests"]) == (1, 1)
    await gateway.call("PATCH", "/admin/config", json={"BATCH_COMPLETION_WINDOW_HOURS": 0})
    told = (await gateway.call("GET", "/user/batch-capabilities", key=free)).json
    assert (told["window_hours"], told["file_window_hours"]) == (None, None)
    await gateway.call("PATCH", "/admin/config", json={"BATCH_ENABLED": False})
    told = (await gateway.call("GET", "/user/batch-capabilities", key=free)).json
    assert (told["status"], told["show_entry"]) == ("disabled", False)


@pytest.fixture
async def working(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    """A gateway with a worker."""
    async with start_gateway(database_url, models, listen_url=listen_url) as gateway:
        yield gateway


async def test_everyones_batches_and_their_sums(working: TestGateway) -> None:
    gateway = working
    key = await gateway.new_key("carol", Role.INTERNAL)
    carol = (await gateway.call("GET", "/user", key=key)).json["account"]["id"]
    await gateway.call("PATCH", f"/admin/accounts/{carol}", json={"email": "carol@example.org"})
    assert (await gateway.call("GET", "/admin/batch/summary")).json["totals"]["total"] == 0
    batch = (
        await gateway.call(
            "POST", "/v1/batches", key=key, json={"requests": [request_line("a")], "metadata": {"name": "Rivers"}}
        )
    ).json["id"]

    async def ended() -> Any:
        found = (await gateway.call("GET", "/admin/batch/jobs?status=completed&target=chat")).json["data"]
        return [one for one in found if one["batch"]["id"] == batch]

    (job,) = await until(ended)
    assert (job["user_name"], job["email"], job["misses_window"]) == ("carol", "carol@example.org", False)
    assert (job["name"], job["target"], job["input_method"]) == ("Rivers", "chat", "requests")
    for part, found in (("river", [batch]), (batch[6:20], [batch]), ("lake", [])):
        jobs = (await gateway.call("GET", f"/admin/batch/jobs?search={part}")).json["data"]
        assert [one["batch"]["id"] for one in jobs] == found
    assert (await gateway.call("GET", f"/admin/batch/jobs?search={batch}&status=failed")).json["data"] == []
    for bad in ("status=x", "target=x", "after=x", "limit=0"):
        assert (await gateway.call("GET", f"/admin/batch/jobs?{bad}")).error["param"] == bad.split("=")[0]
    summary = (await gateway.call("GET", "/admin/batch/summary")).json
    assert [(user["user_name"], user["email"]) for user in summary["users"]] == [("carol", "carol@example.org")]
    assert summary["users"][0]["totals"] == summary["totals"]
    outcomes = ("total", "succeeded", "failed", "expired", "cancelled", "not_finished")
    assert [summary["totals"][name] for name in outcomes] == [1, 1, 0, 0, 0, 0]
    assert (await gateway.call("POST", f"/admin/batch/jobs/{batch}/cancel")).json["batch"]["status"] == "completed"
    assert (await gateway.call("GET", "/admin/audit")).json["data"][0]["action"] == "batch.cancel"
    (worker,) = (await gateway.call("GET", "/admin/workers")).json["data"]
    assert (worker["alive"], worker["running"]) == (True, 0)


async def test_a_cursor_of_another_batch_is_refused(gateway: TestGateway) -> None:
    ids = []
    for _ in range(2):
        made = await gateway.call("POST", "/v1/batches", json={"requests": [request_line("a")]})
        ids.append(made.json["id"])
    cursor = (await gateway.call("GET", f"/v1/batches/{ids[0]}/results")).json["last_id"]
    assert (await gateway.call("GET", f"/v1/batches/{ids[0]}/results?after={cursor}")).status == 200
    answer = await gateway.call("GET", f"/v1/batches/{ids[1]}/results?after={cursor}")
    assert (answer.status, answer.error["param"]) == (400, "after")


async def test_an_administrator_does_not_read_anothers_files(gateway: TestGateway) -> None:
    key = await gateway.new_key("dora", Role.INTERNAL)
    file = (await gateway.upload(b"{}\n", key=key)).json["id"]
    assert (await gateway.call("GET", f"/v1/files/{file}", key=key)).status == 200
    for path in (f"/v1/files/{file}", f"/v1/files/{file}/content"):
        assert (await gateway.call("GET", path)).status == 404
