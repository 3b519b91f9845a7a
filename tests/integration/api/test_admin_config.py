"""The administration of settings over HTTP: who may, checked, masked, audited, in force at once and elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.fake_upstream import FakeUpstream
from tests.gateway import Answer, TestGateway, request_line, start_gateway, until

from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.roles import Role
from ebbtide.api.routing import Admin
from ebbtide.api.server import ENDPOINTS
from ebbtide.clock import SystemClock
from ebbtide.settings.registry import SETTINGS

CAP, URL, ENABLED = "BATCH_MODEL_CONCURRENCY", "ALERT_WEBHOOK_URL", "BATCH_ENABLED"
_ID = re.compile(r"{\w+(?::path)?}")


async def config(gateway: TestGateway) -> dict[str, Any]:
    answer = await gateway.call("GET", "/admin/config")
    assert answer.status == 200
    return {entry["name"]: entry for entry in answer.json["data"]}


async def patch(gateway: TestGateway, **changes: Any) -> Answer:
    return await gateway.call("PATCH", "/admin/config", json=changes)


async def test_only_administrators_get_in(gateway: TestGateway) -> None:
    closed = [endpoint for endpoint in ENDPOINTS if isinstance(endpoint, Admin)]
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.path.startswith("/admin/")} <= {
        endpoint.path for endpoint in closed
    }
    for role in (Role.FREE, Role.PRO, Role.INTERNAL):
        key = await gateway.new_key(role.value, role)
        for endpoint in closed:
            answer = await gateway.call(endpoint.method, _ID.sub("some-id", endpoint.path), key=key)
            assert answer.status == 403, endpoint
            assert answer.error["type"] == "permission_error"


async def test_every_setting_is_told_whole(database_url: str, models: Path) -> None:
    environ = {CAP: "12", URL: "https://hooks.example.org/s3cret"}
    async with start_gateway(database_url, models, role="api", environ=environ) as gateway:
        answer = await gateway.call("GET", "/admin/config")
        assert [entry["name"] for entry in answer.json["data"]] == [setting.name for setting in SETTINGS]
        assert answer.json["unknown"] == []
        assert b"s3cret" not in answer.body
        found = await config(gateway)
        assert found[CAP] == {
            "object": "setting",
            "name": CAP,
            "value": 12,
            "default": 64,
            "source": "environment",
            "type": "integer",
            "minimum": 0,
            "maximum": 100_000,
            "choices": None,
            "several": False,
            "bounds": "a whole number from 0 to 100,000",
            "unit": "requests",
            "description": next(setting.sentence for setting in SETTINGS if setting.name == CAP),
            "secret": False,
            "is_set": True,
            "updated_at": None,
            "updated_by": None,
            "ignored": None,
        }
        role = found["BATCH_MIN_ROLE"]
        assert (role["type"], role["value"], role["choices"]) == (
            "string",
            "internal",
            ["free", "pro", "internal", "admin"],
        )
        assert (found[ENABLED]["type"], found[ENABLED]["value"], found[ENABLED]["minimum"]) == ("boolean", True, None)
        told = {name: found[URL][name] for name in ("value", "default", "secret", "is_set", "source")}
        assert told == {"value": None, "default": None, "secret": True, "is_set": True, "source": "environment"}


async def test_a_change_is_in_force_with_its_answer(gateway: TestGateway) -> None:
    key = await gateway.new_key("ada", Role.ADMIN)
    ada = await Authenticator(gateway.database, SystemClock()).principal(key)
    changes = {"BATCH_MAX_REQUESTS": 1, "BATCH_YIELD_TO_INTERACTIVE": False, "BATCH_MIN_ROLE": "PRO", CAP: "3"}
    answer = await gateway.call("PATCH", "/admin/config", key=key, json=changes)
    assert answer.status == 200
    found = {entry["name"]: entry for entry in answer.json["data"]}
    assert [found[name]["value"] for name in changes] == [1, False, "pro", 3]
    assert {found[name]["source"] for name in changes} == {"stored"}
    assert {found[name]["updated_by"] for name in changes} == {f"{ada.account_id}/{ada.key_id}"}
    two = {"requests": [request_line("a"), request_line("b")]}
    assert (await gateway.call("POST", "/v1/batches", json=two)).status == 400

    reset = await gateway.call("DELETE", "/admin/config/BATCH_MAX_REQUESTS", key=key)
    assert (reset.status, reset.json["deleted"], reset.json["setting"]["value"]) == (200, True, 50_000)
    assert reset.json["setting"]["source"] == "default"
    assert (await gateway.call("DELETE", "/admin/config/BATCH_MAX_REQUESTS", key=key)).json["deleted"] is False
    assert (await gateway.call("POST", "/v1/batches", json=two)).status == 200
    assert (await patch(gateway, **{CAP: None})).status == 200
    assert (await config(gateway))[CAP]["source"] == "default"

    log = [entry for entry in (await gateway.call("GET", "/admin/audit")).json["data"] if entry["account_id"] is None]
    assert [(entry["action"], entry["subject"], entry["detail"]) for entry in log] == [
        ("setting.reset", CAP, {"old": "3", "new": None}),
        ("setting.reset", "BATCH_MAX_REQUESTS", {"old": "1", "new": None}),
        ("setting.set", "BATCH_YIELD_TO_INTERACTIVE", {"old": None, "new": "off"}),
        ("setting.set", CAP, {"old": None, "new": "3"}),
        ("setting.set", "BATCH_MIN_ROLE", {"old": None, "new": "PRO"}),
        ("setting.set", "BATCH_MAX_REQUESTS", {"old": None, "new": "1"}),
    ]
    assert {entry["actor"] for entry in log[1:]} == {f"{ada.account_id}/{ada.key_id}"}
    assert log[0]["actor"] != log[1]["actor"]


async def test_a_reset_returns_to_the_environment(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={CAP: "12"}) as gateway:
        await patch(gateway, **{CAP: 3})
        assert (await config(gateway))[CAP]["value"] == 3
        reset = await gateway.call("DELETE", f"/admin/config/{CAP}")
        assert (reset.json["setting"]["value"], reset.json["setting"]["source"]) == (12, "environment")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({CAP: 100_001}, [CAP, "'100001'", "from 0 to 100,000"]),
        ({CAP: -1}, [CAP, "from 0 to 100,000"]),
        ({CAP: 10**17}, [CAP, "from 0 to 100,000"]),
        ({CAP: 1.5}, [CAP, "from 0 to 100,000"]),
        ({CAP: True}, [CAP, "from 0 to 100,000"]),
        ({CAP: ["1"]}, [CAP, "from 0 to 100,000"]),
        ({ENABLED: 2}, [ENABLED, "on or off"]),
        ({ENABLED: ""}, [ENABLED, "on or off"]),
        ({"BATCH_MIN_ROLE": "king"}, ["free, pro, internal, admin"]),
        ({URL: "s3cret.example.org"}, [URL, "https://"]),
        ({URL: {"s3cret": 1}}, [URL, "https://"]),
        ({"DAILY_QUOTA_USD_PRO": -1}, ["an amount of 0 or more"]),
        ({CAP: 1.5}, ["a whole number from 0 to 100,000"]),
        ({"BATCH_SPEED": 1, CAP: 8}, ["BATCH_SPEED"]),
        ({"BATCH_SPEED": None}, ["BATCH_SPEED"]),
        ({"BATCH\0": None}, ["BATCH"]),
        ({"BATCH_SPEED": []}, ["BATCH_SPEED"]),
    ],
)
async def test_a_refusal_names_the_setting_and_its_bounds(
    gateway: TestGateway, changes: dict[str, Any], words: list[str]
) -> None:
    answer = await patch(gateway, **{"BATCH_MAX_REQUESTS": 7, **changes})
    assert answer.status == 400
    for word in words:
        assert word in answer.error["message"]
    assert b"s3cret" not in answer.body
    assert answer.error["param"] in {*changes, "BATCH\0"}
    assert (await config(gateway))["BATCH_MAX_REQUESTS"]["value"] == 50_000
    assert (await gateway.call("GET", "/admin/audit")).json["data"] == []


async def test_an_amount_is_a_number_or_text_and_empty_for_none(gateway: TestGateway) -> None:
    for given, value in ((12.5, "12.5"), (0.0000001, "0.0000001"), ("7.25", "7.25"), (3, "3"), (0, "0"), ("", None)):
        assert (await patch(gateway, DAILY_QUOTA_USD_PRO=given)).status == 200
        told = (await config(gateway))["DAILY_QUOTA_USD_PRO"]
        assert (told["value"], told["source"]) == (value, "stored")


async def test_bodies_that_are_no_changes(gateway: TestGateway) -> None:
    for body in (b"", b"[]", b"{", b'"x"', b'{"BATCH_ENABLED": NaN}', b"\xff"):
        assert (await gateway.call("PATCH", "/admin/config", data=body)).status == 400
    assert (await patch(gateway)).status == 200
    for name in ("BATCH_SPEED", "batch_enabled", "x" * 2_000):
        answer = await gateway.call("DELETE", f"/admin/config/{name}")
        assert answer.status == 404
        assert name[:100] in answer.error["message"]


async def test_what_another_release_stored_can_be_removed(gateway: TestGateway) -> None:
    async with gateway.database.transaction() as conn:
        await conn.execute(
            "insert into settings values ('BATCH_LATER', 'x', now(), 'cli:x'), ($1, 'x', now(), 'y')", CAP
        )
    listed = (await gateway.call("GET", "/admin/config")).json
    assert listed["unknown"] == ["BATCH_LATER"]
    assert "from 0 to 100,000" in (await config(gateway))[CAP]["ignored"]
    answer = await gateway.call("DELETE", "/admin/config/BATCH_LATER")
    assert answer.json == {"object": "setting.deleted", "name": "BATCH_LATER", "deleted": True, "setting": None}
    assert (await gateway.call("DELETE", f"/admin/config/{CAP}")).json["setting"]["ignored"] is None


async def test_a_secret_is_in_no_answer_and_no_log(gateway: TestGateway) -> None:
    with capture_logs() as logs:
        answers = [
            await patch(gateway, **{URL: "https://hooks.example.org/s3cret"}),
            await patch(gateway, **{URL: "https://hooks.example.org/s3cret2"}),
            await gateway.call("GET", "/admin/config"),
            await gateway.call("GET", "/admin/audit"),
            await gateway.call("DELETE", f"/admin/config/{URL}"),
        ]
    assert [answer.status for answer in answers] == [200] * 5
    assert (await config(gateway))[URL]["is_set"] is False
    for told in (*(answer.body for answer in answers), logs):
        assert "s3cret" not in repr(told)


async def test_the_audit_log_is_paged(gateway: TestGateway) -> None:
    for cap in range(5):
        await patch(gateway, **{CAP: cap})
    first = (await gateway.call("GET", "/admin/audit?limit=3")).json
    assert [entry["detail"]["new"] for entry in first["data"]] == ["4", "3", "2"]
    assert (first["has_more"], first["last_id"]) == (True, first["data"][-1]["id"])
    rest = (await gateway.call("GET", f"/admin/audit?limit=2&after={first['last_id']}")).json
    assert [entry["detail"]["new"] for entry in rest["data"]] == ["1", "0"]
    assert rest["has_more"] is False
    nobody = (await gateway.call("GET", "/admin/audit?account_id=acct_nobody")).json
    assert nobody == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
    for query in (
        "limit=0",
        "limit=1001",
        "after=batch_req_1",
        "after=audit_x",
        "after=audit_" + "9" * 30,
        "account_id=%00",
    ):
        assert (await gateway.call("GET", f"/admin/audit?{query}")).status == 400, query


async def test_batches_off_everywhere_and_on_again(
    database_url: str, listen_url: str, models: Path, upstream: FakeUpstream
) -> None:
    async with (
        start_gateway(database_url, models, role="api", listen_url=listen_url) as here,
        start_gateway(database_url, models, role="all", listen_url=listen_url) as there,
    ):
        await patch(here, **{CAP: 0})
        await until(lambda: _cap_is(there, 0), within=10)
        batch = (await here.call("POST", "/v1/batches", json={"requests": [request_line("a")]})).json
        await patch(here, **{ENABLED: False, CAP: None})
        batch_routes = [endpoint for endpoint in ENDPOINTS if re.match(r"/v1/(batch|files)", endpoint.path)]
        await until(lambda: _is_gone(there, batch["id"]), within=10)
        for gateway in (here, there):
            for endpoint in batch_routes:
                answer = await gateway.call(endpoint.method, _ID.sub(batch["id"], endpoint.path))
                assert answer.status == 404, endpoint
            assert (await gateway.call("GET", "/v1/models")).status == 200
        with pytest.raises(TimeoutError):  # nothing starts, though the worker looks every second
            await until(lambda: _has(upstream), within=2.5)
        assert (await there.call("DELETE", f"/admin/config/{ENABLED}")).status == 200
        done = await until(lambda: _ended(there, batch["id"]), within=20)
        assert done["request_counts"] | {"completed": 1, "total": 1, "failed": 0} == done["request_counts"]
        assert upstream.count == 1
        assert (await here.call("GET", f"/v1/batches/{batch['id']}")).status == 200


async def _cap_is(gateway: TestGateway, cap: int) -> bool:
    return bool((await config(gateway))[CAP]["value"] == cap)


async def _is_gone(gateway: TestGateway, batch_id: str) -> bool:
    return (await gateway.call("GET", f"/v1/batches/{batch_id}")).status == 404


async def _has(upstream: FakeUpstream) -> bool:
    return upstream.count > 0


async def _ended(gateway: TestGateway, batch_id: str) -> Any:
    answer = await gateway.call("GET", f"/v1/batches/{batch_id}")
    return answer.json if answer.json["status"] == "completed" else None
