"""Signing in to the console over real HTTP: cookies, CSRF, what ends a session, what is refused and how often."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from tests import people
from tests.gateway import Answer, TestGateway, start_gateway
from tests.people import revoke_key

from ebbtide.accounts import accounts
from ebbtide.accounts.attempts import PER_ADDRESS, PER_NAME
from ebbtide.accounts.keys import list_keys
from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.api.routing import Closed
from ebbtide.api.server import ENDPOINTS
from ebbtide.clock import SystemClock
from ebbtide.settings.snapshot import SettingsSource

PASSWORD = "correct horse battery"
_ID = re.compile(r"{\w+(?::path)?}")
SAFE = {"GET", "HEAD"}


class Browser:
    """Someone at the console: keeps the cookie, and sends the CSRF token unless told otherwise."""

    def __init__(self, gateway: TestGateway) -> None:
        self._gateway = gateway
        self.cookie: str | None = None
        self.token = ""

    async def sign_in(self, name: str, password: str = PASSWORD, path: str = "/session", **more: Any) -> Answer:
        answer = await self.call("POST", path, json={"name": name, "password": password, **more})
        if answer.status == 200:
            self.cookie = SimpleCookie(answer.headers["set-cookie"])["ebbtide_session"].value
            self.token = answer.json["csrf_token"]
        return answer

    async def call(self, method: str, path: str, *, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        sent = {"X-CSRF-Token": self.token} if method not in SAFE and self.token else {}
        if self.cookie is not None:
            sent["Cookie"] = f"other=1; ebbtide_session={self.cookie}"
        return await self._gateway.call(method, path, key=None, headers=sent | (headers or {}), **body)


@pytest.fixture
async def ada(gateway: TestGateway) -> Browser:
    """Somebody internal with a password, not signed in."""
    account = await people.create_account(gateway.database, "ada", Role.INTERNAL, SystemClock().now())
    await sessions(gateway).set_password(account.id, PASSWORD, "cli:test")
    return Browser(gateway)


def sessions(gateway: TestGateway) -> Sessions:
    return Sessions(gateway.database, SystemClock(), SettingsSource.from_environ({}), Passwords())


async def account_id(gateway: TestGateway) -> str:
    return (await accounts.find_account(gateway.database, "ada")).id


async def execute(gateway: TestGateway, sql: str, *values: Any) -> None:
    async with gateway.database.transaction() as conn:
        await conn.execute(sql, *values)


async def actions(gateway: TestGateway) -> list[str]:
    audit = await gateway.call("GET", "/admin/audit")
    return [entry["action"] for entry in audit.json["data"]]


async def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_do_not_get(
    gateway: TestGateway, ada: Browser
) -> None:
    answer = await ada.sign_in("ada")
    assert answer.status == 200
    cookie = SimpleCookie(answer.headers["set-cookie"])["ebbtide_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "lax", "/", "")
    assert int(cookie["max-age"]) == 168 * 3600
    assert answer.headers["cache-control"] == "no-store"
    shown = await ada.call("GET", "/session")
    assert shown.json == answer.json
    assert (shown.json["name"], shown.json["role"]) == ("ada", "internal")
    assert (await ada.call("GET", "/v1/batches")).status == 200
    async with gateway.database.connection() as conn:
        stored = await conn.fetchrow(
            "select s::text || a::text as text from sessions s, accounts a where a.name = 'ada'"
        )
    assert stored is not None
    assert cookie.value not in stored["text"]
    assert PASSWORD not in stored["text"]
    assert "$argon2id$" in stored["text"]


async def test_a_forwarded_scheme_of_an_untrusted_client_is_not_believed(gateway: TestGateway, ada: Browser) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
    body = {"name": "ada", "password": PASSWORD}
    answer = await gateway.call("POST", "/session", key=None, headers=headers, json=body)
    assert "secure" not in answer.headers["set-cookie"].lower()
    async with gateway.database.connection() as conn:
        subjects = [row["subject"] for row in await conn.fetch("select subject from sign_in_attempts")]
    assert "address:127.0.0.1" in subjects


async def test_a_trusted_proxy_tells_the_scheme_and_the_address(
    database_url: str, listen_url: str, models: Path
) -> None:
    boot: dict[str, Any] = {"trusted_proxies": ("127.0.0.0/8",)}
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, **boot) as gateway:
        code = gateway.running.setup_code
        body = {"name": "ada", "password": PASSWORD, "code": code}
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.1.1.1, 2001:db8::5"}
        answer = await gateway.call("POST", "/setup", key=None, headers=headers, json=body)
        assert "; secure" in answer.headers["set-cookie"].lower()
        async with gateway.database.connection() as conn:
            subjects = [row["subject"] for row in await conn.fetch("select subject from sign_in_attempts")]
        assert "address:2001:db8::" in subjects  # the last one is the proxy's own word; of IPv6 the /64
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, secure_cookies=True) as gateway:
        assert gateway.running.setup_code is None
        del body["code"]
        answer = await gateway.call("POST", "/session", key=None, json=body)
        assert "; secure" in answer.headers["set-cookie"].lower()


async def test_every_route_that_changes_something_refuses_what_another_site_sends(
    gateway: TestGateway, ada: Browser
) -> None:
    await ada.sign_in("ada")
    other = Browser(gateway)
    await other.sign_in("ada")
    await gateway.call("PATCH", "/admin/config", json={"BATCH_MESSAGE_BATCHES": True})  # else gone for everybody
    attacks: list[dict[str, str]] = [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
        {"X-CSRF-Token": other.token},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ]
    changing = [one for one in ENDPOINTS if isinstance(one, Closed) and one.method not in SAFE]
    assert len(changing) > 10
    for endpoint in changing:
        for attack in attacks:
            answer = await ada.call(endpoint.method, _ID.sub("some-id", endpoint.path), headers=attack)
            assert answer.status == 403, (endpoint.method, endpoint.path, attack)
    assert (await ada.call("GET", "/session")).status == 200


@pytest.mark.parametrize("path", ["/session", "/setup"])
async def test_another_site_cannot_sign_a_browser_in(gateway: TestGateway, ada: Browser, path: str) -> None:
    body = {"name": "ada", "password": PASSWORD, "code": "A"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await gateway.call("POST", path, key=None, headers=headers, json=body)
        assert answer.status == 403
    form = await gateway.call("POST", path, key=None, data=str(body), headers={"Content-Type": "text/plain"})
    assert form.status == 400


async def test_a_session_works_as_a_key_that_can_be_revoked(gateway: TestGateway, ada: Browser) -> None:
    await ada.sign_in("ada")
    second = Browser(gateway)
    await second.sign_in("ada")
    keys = await list_keys(gateway.database, await account_id(gateway))
    assert [(key.name, key.prefix) for key in keys] == [("console", "console")]
    origin = {"Origin": gateway.url, "Sec-Fetch-Site": "same-origin"}
    item = {"custom_id": "a", "body": {"model": "chat-1", "messages": [{"role": "user", "content": "Hi"}]}}
    made = await ada.call("POST", "/v1/batches", headers=origin, json={"requests": [item]})
    assert made.status == 200, made.body
    assert (await second.call("GET", f"/v1/batches/{made.json['id']}")).status == 200
    assert (await ada.call("GET", "/admin/audit")).status == 403
    await revoke_key(gateway.database, keys[0].id, SystemClock().now())
    assert (await ada.call("GET", "/session")).status == 401
    assert (await ada.sign_in("ada")).status == 200


async def test_two_browsers_sign_out_apart_and_together(gateway: TestGateway, ada: Browser) -> None:
    second, third = Browser(gateway), Browser(gateway)
    for browser in (ada, second, third):
        await browser.sign_in("ada")
    assert len({ada.cookie, second.cookie, third.cookie}) == 3
    out = await ada.call("DELETE", "/session")
    assert out.json == {"ended": 1}
    assert 'ebbtide_session=""' in out.headers["set-cookie"]
    assert (await ada.call("GET", "/session")).status == 401
    assert (await second.call("DELETE", "/sessions")).json == {"ended": 2}
    assert (await third.call("GET", "/session")).status == 401
    assert (await gateway.call("DELETE", "/session")).status == 400  # by key: there is none to end
    assert {"session.create", "session.end", "session.end_all", "password.set"} <= set(await actions(gateway))


async def test_a_cookie_given_before_signing_in_is_not_taken_on(gateway: TestGateway, ada: Browser) -> None:
    ada.cookie = planted = "x" * 43
    await ada.sign_in("ada")
    assert ada.cookie != planted
    ada.cookie = planted
    assert (await ada.call("GET", "/session")).status == 401


@pytest.mark.parametrize("column", ["expires_at", "used_at"])
async def test_a_session_ends_by_age_and_by_idleness(gateway: TestGateway, ada: Browser, column: str) -> None:
    await ada.sign_in("ada")
    await execute(gateway, f"update sessions set {column} = {column} - $1::interval", timedelta(days=8))
    assert (await ada.call("GET", "/session")).status == 401


async def test_suspending_ends_sessions_for_good(gateway: TestGateway, ada: Browser) -> None:
    await ada.sign_in("ada")
    await people.suspend_account(gateway.database, await account_id(gateway))
    assert (await ada.call("GET", "/session")).status == 401
    assert (await ada.sign_in("ada")).status == 401
    await people.resume_account(gateway.database, await account_id(gateway))
    assert (await ada.call("GET", "/session")).status == 401
    assert (await ada.sign_in("ada")).status == 200
    await people.delete_account(gateway.database, await account_id(gateway))
    assert (await ada.call("GET", "/session")).status == 401


async def test_suspending_over_http_ends_sessions_for_good_too(gateway: TestGateway, ada: Browser) -> None:
    await ada.sign_in("ada")
    path = f"/admin/accounts/{await account_id(gateway)}"
    for state in ("suspended", "active"):
        assert (await gateway.call("PATCH", path, json={"state": state})).status == 200
        assert (await ada.call("GET", "/session")).status == 401
    assert (await ada.sign_in("ada")).status == 200


async def test_changing_ones_password_ends_the_other_sessions(gateway: TestGateway, ada: Browser) -> None:
    other = Browser(gateway)
    await ada.sign_in("ada")
    await other.sign_in("ada")

    async def change(current: str, new: str) -> int:
        return (await ada.call("PUT", "/user/password", json={"current": current, "new": new})).status

    assert await change("wrong", "a new password") == 403
    assert await change(PASSWORD, "short") == 400
    assert await change(PASSWORD, "é" * 513) == 400
    assert await change(PASSWORD, "a new password") == 200
    assert (await ada.call("GET", "/session")).status == 200
    assert (await other.call("GET", "/session")).status == 401
    assert (await other.sign_in("ada")).status == 401
    assert (await other.sign_in("ada", "a new password")).status == 200


async def test_refusals_do_not_tell_whether_the_name_exists(gateway: TestGateway, ada: Browser) -> None:
    await people.create_account(gateway.database, "without", Role.FREE, SystemClock().now())
    tries = [("ada", "wrong"), ("nobody", PASSWORD), ("without", ""), ("a\0b", "x"), ("ada", "x" * 5_000), ("ada", "")]
    answers = [await Browser(gateway).sign_in(name, password) for name, password in tries]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    audit = await gateway.call("GET", "/admin/audit")
    assert [entry["action"] for entry in audit.json["data"][: len(tries)]] == ["session.refused"] * len(tries)
    assert b"nobody" not in audit.body
    lone = await gateway.call(
        "POST",
        "/session",
        key=None,
        data=b'{"name": "a", "password": "\\ud800"}',
        headers={"Content-Type": "application/json"},
    )
    assert lone.status in {400, 401}


async def test_attempts_made_at_once_are_limited_by_name(gateway: TestGateway, ada: Browser) -> None:
    tries = [Browser(gateway).sign_in("ada", "wrong") for _ in range(PER_NAME + 4)]
    statuses = [answer.status for answer in await asyncio.gather(*tries)]
    assert sorted(statuses) == [401] * PER_NAME + [429] * 4
    refused = await ada.sign_in("ada")
    assert refused.status == 429
    assert 0 < int(refused.headers["retry-after"]) <= 900
    await execute(gateway, "update sign_in_attempts set until = until - interval '15 minutes'")
    assert (await ada.sign_in("ada")).status == 200


async def test_signing_in_clears_the_names_count_but_not_the_addresses(gateway: TestGateway, ada: Browser) -> None:
    await execute(
        gateway,
        "insert into sign_in_attempts values ('address:127.0.0.1', $1, now() + interval '1 hour')",
        PER_ADDRESS - 3,
    )
    await ada.sign_in("ada", "wrong")
    assert (await ada.sign_in("ada")).status == 200
    assert (await ada.sign_in("other", "wrong")).status == 401
    assert (await ada.sign_in("ada")).status == 429


async def test_a_key_beside_the_cookie_is_what_counts(gateway: TestGateway, ada: Browser) -> None:
    await ada.sign_in("ada")
    headers = {"X-API-Key": gateway.admin_key}
    assert (await ada.call("GET", "/session", headers=headers)).json["csrf_token"] is None
    assert (await ada.call("GET", "/session", headers={"X-API-Key": "ebb-" + "x" * 43})).status == 401


async def test_set_up_makes_one_administrator_with_the_code_printed(gateway: TestGateway) -> None:
    code = gateway.running.setup_code
    assert code is not None
    assert (await gateway.call("GET", "/setup", key=None)).json == {"open": True, "oidc": False}
    await people.create_account(gateway.database, "someone", Role.PRO, SystemClock().now())
    assert (await Browser(gateway).sign_in("root", path="/setup", code="WRONG")).status == 403
    assert (await Browser(gateway).sign_in("someone", path="/setup", code=code)).status == 409
    assert (await Browser(gateway).sign_in("root", "short", path="/setup", code=code)).status == 400
    browsers = [Browser(gateway) for _ in range(4)]
    tries = [browser.sign_in(f"root-{n}", path="/setup", code=code.lower()) for n, browser in enumerate(browsers)]
    answers = await asyncio.gather(*tries)
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    winner = next(browser for browser, answer in zip(browsers, answers, strict=True) if answer.status == 200)
    assert (await winner.call("GET", "/admin/audit")).status == 200
    assert (await gateway.call("GET", "/setup", key=None)).json == {"open": False, "oidc": False}
    names = [account.name for account in await accounts.list_accounts(gateway.database)]
    assert len([name for name in names if name.startswith("root-")]) == 1
    assert "setup.claim" in await actions(gateway)


async def test_set_up_can_claim_the_administrator_made_at_start(gateway: TestGateway) -> None:
    browser = Browser(gateway)
    answer = await browser.sign_in("admin", path="/setup", code=gateway.running.setup_code)
    assert answer.status == 200
    by_key = await gateway.call("GET", "/session")
    assert by_key.json["account_id"] == answer.json["account_id"]
