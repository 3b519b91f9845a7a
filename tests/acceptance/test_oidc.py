"""Signing in by OpenID Connect against a real provider process, as a browser does it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import msgspec
import pytest
from tests import people
from tests.gateway import Answer, TestGateway, chat_model, models_file, start_gateway

from ebbtide.accounts.directory import Identity
from ebbtide.accounts.oidc.flow import link
from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

USERS = (
    {"sub": "ada-1", "email": "ada@example.org", "email_verified": True, "groups": ["staff", "ops"]},
    {"sub": "eve-1", "email": "eve@evil.example", "email_verified": True},
    {"sub": "mal-1", "email": "mal@example.org", "email_verified": False},
)
_RUNNING = re.compile(rb"running on (http://127\.0\.0\.1:\d+)")


@pytest.fixture
async def issuer() -> AsyncIterator[str]:
    """A provider process on a free port."""
    users = [part for user in USERS for part in ("--user-claims", msgspec.json.encode(user).decode())]
    command = (sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", "0", *users)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            if found := _RUNNING.search(line):
                break
        else:
            pytest.fail("the provider did not start")
        reading = asyncio.create_task(process.stdout.read())  # so that a full pipe never stops it
        yield found[1].decode()
        process.terminate()
        await reading
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Browser:
    """Follows the flow by hand; `jar` holds the gateway's cookies."""

    def __init__(self, gateway: TestGateway) -> None:
        self.gateway = gateway
        self.jar: dict[str, str] = {}

    async def get(self, path: str) -> Answer:
        cookies = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        answer = await self.gateway.call("GET", path, key=None, headers={"Cookie": cookies})
        for line in answer.headers.getall("Set-Cookie", []):  # type: ignore[attr-defined]
            for name, morsel in SimpleCookie(line).items():
                self.jar[name] = morsel.value
        return answer

    async def start(self, after: str = "/batches") -> str:
        answer = await self.get(f"/session/oidc/start?next={after}")
        assert answer.status == 302, answer.body
        return answer.headers["location"]

    async def consent(self, url: str, subject: str, **more: str) -> str:
        """Sign in at the provider; returns the callback's path and query."""
        async with self.gateway.http.post(url, data={"sub": subject, **more}, allow_redirects=False) as answer:
            assert answer.status == 302, await answer.text()
            parts = urlsplit(answer.headers["location"])
        return f"{parts.path}?{parts.query}"

    async def sign_in(self, subject: str) -> Answer:
        return await self.get(await self.consent(await self.start(), subject))


@pytest.fixture
async def environ(issuer: str) -> dict[str, str]:
    return {
        "EBBTIDE_OIDC_ISSUER": issuer,
        "EBBTIDE_OIDC_CLIENT_ID": "ebbtide",
        "EBBTIDE_OIDC_CLIENT_SECRET": "a/secret:with+signs",
        "EBBTIDE_OIDC_ALLOWED_DOMAINS": "example.org",
        "EBBTIDE_OIDC_ROLE_CLAIM": "groups",
        "EBBTIDE_OIDC_ROLE_MAP": "staff=pro,ops=internal",
    }


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return models_file(tmp_path, chat_model())


async def find_issuer(environ: Mapping[str, str]) -> str:
    async with (
        aiohttp.ClientSession() as http,
        http.get(environ["EBBTIDE_OIDC_ISSUER"] + "/.well-known/openid-configuration") as answer,
    ):
        return str((await answer.json())["issuer"])


async def test_people_sign_in_and_are_known_by_subject(
    database_url: str, listen_url: str, models: Path, environ: dict[str, str]
) -> None:
    environ |= {"EBBTIDE_OIDC_ISSUER": await find_issuer(environ), "EBBTIDE_OIDC_CREATE_ACCOUNTS": "on"}
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, environ=environ) as gateway:
        assert gateway.running.setup_code is None
        assert (await gateway.call("GET", "/setup", key=None)).json == {"open": False, "oidc": True}
        ada = Browser(gateway)
        answer = await ada.sign_in("ada-1")
        assert (answer.status, answer.headers["location"]) == (302, "/batches"), answer.body
        shown = (await ada.get("/session")).json
        assert (shown["name"], shown["role"]) == ("ada@example.org", "internal")
        account = f"/admin/accounts/{shown['account_id']}"
        known = (await gateway.call("GET", account)).json
        assert (known["email"], known["sign_in"]["password"]) == ("ada@example.org", False)
        assert [one["subject"] for one in known["sign_in"]["identities"]] == ["ada-1"]
        await gateway.call("PATCH", account, json={"email": "old@example.org"})
        again = Browser(gateway)
        await again.sign_in("ada-1")
        assert (await again.get("/user")).json["account"]["email"] == "ada@example.org"
        assert (await again.get("/session")).json["account_id"] == shown["account_id"]
        assert again.jar["ebbtide_session"] != ada.jar["ebbtide_session"]
        for subject in ("eve-1", "mal-1"):
            refused = await Browser(gateway).sign_in(subject)
            assert refused.status == 403
            assert "allowed domain" in refused.error["message"]
        await people.suspend_account(gateway.database, shown["account_id"])
        assert (await ada.get("/session")).status == 401
        assert (await Browser(gateway).sign_in("ada-1")).status == 401
        audit = (await gateway.call("GET", "/admin/audit")).json["data"]
        assert {"oidc.link", "session.create"} <= {entry["action"] for entry in audit}


async def test_without_leave_to_make_accounts_an_administrator_links_them(
    database_url: str, listen_url: str, models: Path, environ: dict[str, str]
) -> None:
    environ["EBBTIDE_OIDC_ISSUER"] = await find_issuer(environ)
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, environ=environ) as gateway:
        now = SystemClock().now()
        account = await people.create_account(gateway.database, "ada@example.org", Role.PRO, now)
        refused = await Browser(gateway).sign_in("ada-1")
        assert refused.status == 403  # the same e-mail address is not enough
        assert "'ada-1'" in refused.error["message"]
        async with gateway.database.transaction() as conn:
            await link(conn, Identity(environ["EBBTIDE_OIDC_ISSUER"], "ada-1", now), account.id, "cli:test")
        browser = Browser(gateway)
        assert (await browser.sign_in("ada-1")).status == 302
        shown = (await browser.get("/session")).json
        assert (shown["account_id"], shown["role"]) == (account.id, "pro")


async def test_callbacks_that_were_not_started_here_or_come_twice_are_refused(
    database_url: str, listen_url: str, models: Path, environ: dict[str, str]
) -> None:
    environ |= {"EBBTIDE_OIDC_ISSUER": await find_issuer(environ), "EBBTIDE_OIDC_CREATE_ACCOUNTS": "on"}
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, environ=environ) as gateway:
        ada, other = Browser(gateway), Browser(gateway)
        url = await ada.start()
        query = parse_qs(urlsplit(url).query)
        assert query["code_challenge_method"] == ["S256"]
        callback = await ada.consent(url, "ada-1")
        assert (await other.get(callback)).status == 400  # no cookie at all
        await other.start()
        assert (await other.get(callback)).status == 400  # another browser's sign-in
        kept = dict(ada.jar)
        assert (await ada.get(callback)).status == 302
        ada.jar = kept  # the code again, by whoever has the cookie as well
        assert (await ada.get(callback)).status == 401
        # Another sign-in's code in mine: its verifier and nonce are not mine.
        mixed, victim = Browser(gateway), Browser(gateway)
        stolen = parse_qs(urlsplit(await victim.consent(await victim.start(), "ada-1")).query)["code"][0]
        state = parse_qs(urlsplit(await mixed.start()).query)["state"][0]
        assert (await mixed.get(f"/session/oidc/callback?state={state}&code={stolen}")).status == 401
        denied = Browser(gateway)
        told = await denied.get(await denied.consent(await denied.start(), "ada-1", action="deny"))
        assert told.status in {400, 403}
        assert "ebbtide_session" not in denied.jar
        for after in ("//evil.example", "https://evil.example", "/\\evil.example", "evil", "/%09/evil.example"):
            assert (await denied.get(f"/session/oidc/start?next={after}")).status == 400, after


async def test_a_provider_that_is_away_is_told_in_words(database_url: str, listen_url: str, models: Path) -> None:
    environ = {"EBBTIDE_OIDC_ISSUER": "http://127.0.0.1:9", "EBBTIDE_OIDC_CLIENT_ID": "ebbtide"}
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, environ=environ) as gateway:
        answer = await Browser(gateway).get("/session/oidc/start")
        assert answer.status == 503
        assert answer.error["message"] == "The identity provider cannot be reached"
        assert (await gateway.call("GET", "/v1/models")).status == 200
