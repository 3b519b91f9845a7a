"""The console in a real Chromium, against a real gateway process, its database and an upstream that does as it is told.

One browser, one gateway and one upstream for each test process; every test has an account and a browser window of its
own. Where there is no Chromium the tests are skipped, unless EBBTIDE_TEST_BROWSER names one or says `required`.
Whatever the browser complains about on the way fails the test: script errors, and what the page's policy refused.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect
from tests.conftest import Server, database_at
from tests.fake_upstream import FakeUpstream
from tests.gateway import chat_model, embedding_model, models_file
from tests.people import create_account, create_key
from tests.processes import GatewayProcess, Processes

from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.clock import SystemClock
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.storage.pool import Database

PASSWORD = "correct horse battery"
NO_BROWSER = "no Chromium was found: the console was not tested (EBBTIDE_TEST_BROWSER names one)"
expect.set_options(timeout=20_000)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_NUMBERS = itertools.count(1)
FAILED = pytest.StashKey[bool]()


def find_chromium() -> str | None:
    """The program, None when there is none. Raises RuntimeError where one is required."""
    named = os.environ.get("EBBTIDE_TEST_BROWSER", "")
    if named not in ("", "required"):
        return named
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and named == "required":
        raise RuntimeError(NO_BROWSER)
    return found


@dataclass(frozen=True)
class Deployment:
    """A gateway process and what it stands on."""

    gateway: GatewayProcess
    database: Database
    upstream: FakeUpstream

    @property
    def url(self) -> str:
        return self.gateway.url


@dataclass(frozen=True)
class Person:
    """An account that is signed in to the console, in a window of its own; `key` is an API key of it."""

    name: str
    account_id: str
    key: str
    page: Page
    deployment: Deployment

    async def open(self, path: str) -> None:
        """Go to a page of the console."""
        await self.page.goto(f"{self.deployment.url}/console{path}")

    async def call(self, method: str, path: str, **sent: Any) -> Any:
        """The JSON answer of the gateway's API to this person's key."""
        answer = await self.deployment.gateway.call(method, path, key=self.key, **sent)
        assert answer.status < 300, answer.body
        return answer.json

    async def batch(self, requests: list[dict[str, Any]], name: str | None = None) -> str:
        """The id of a new batch."""
        metadata = {} if name is None else {"metadata": {"name": name}}
        created = await self.call("POST", "/v1/batches", json={"requests": requests} | metadata)
        return str(created["id"])

    async def ended(self, batch_id: str) -> Any:
        """The batch once it has ended."""
        before, self.deployment.gateway.key = self.deployment.gateway.key, self.key
        try:
            return await self.deployment.gateway.ended(batch_id)
        finally:
            self.deployment.gateway.key = before


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip(NO_BROWSER)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream(record=False) as upstream:
        yield upstream


@pytest.fixture(scope="session")
async def deployment(
    browser: Browser, server: Server, template: str, upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    folder: Path = tmp_path_factory.mktemp("console")
    models = models_file(
        folder,
        chat_model(upstream.url, pricing={"input": 1, "output": 2}, aliases=["fast"]),
        chat_model(upstream.url, "org/for-admins", min_role="admin"),
        embedding_model(upstream.url),
    )
    async with server.database(template) as name:
        url = database_at(server.url, name)
        environ = {
            "EBBTIDE_DATABASE_URL": url,
            "EBBTIDE_DATABASE_LISTEN_URL": database_at(server.listen_url, name),
            "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on",
            "BATCH_MAX_ACTIVE_PER_USER": "100",
            "BATCH_MESSAGE_BATCHES": "on",
        }
        async with Processes(folder, models, **environ) as processes, await Database.connect(url) as database:
            yield Deployment(await processes.start(), database, upstream)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Notes on a browser test whether it failed, so that its window can tell what it showed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture
async def window(browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """An empty window in which nobody is signed in. When the test fails, what it showed at the end is printed."""
    context = await browser.new_context(locale="en-US", timezone_id="Europe/Berlin")
    context.set_default_timeout(20_000)
    page = await context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.extend(_complaint(message)))
    yield page
    if FAILED in request.node.stash:
        sys.stdout.write(f"{page.url}\n{await page.locator('body').aria_snapshot()}\n")
    await page.unroute_all(behavior="wait")  # an answer that a test changes may just be on its way
    await context.close()
    assert complaints == []


def _complaint(message: ConsoleMessage) -> list[str]:
    """What a message of the browser complains about; that an answer was not a 200 is no complaint."""
    if message.type not in ("error", "warning") or message.text.startswith("Failed to load resource"):
        return []
    return [message.text]


@pytest.fixture
async def person(deployment: Deployment, window: Page) -> Person:
    """Somebody internal, signed in."""
    return await sign_in_somebody(deployment, window, Role.INTERNAL)


async def sign_in_somebody(deployment: Deployment, window: Page, role: Role) -> Person:
    """A new account with a password and a key, signed in by the same call as the console makes."""
    database, now = deployment.database, SystemClock().now()
    name = f"{role.value}-{os.getpid()}-{next(_NUMBERS)}"
    account = await create_account(database, name, role, now)
    _, key = await create_key(database, account.id, now=now)
    sessions = Sessions(database, SystemClock(), SettingsSource(Settings()), Passwords())
    await sessions.set_password(account.id, PASSWORD, "cli:test")
    async with database.transaction() as conn:  # all of them come from one address
        await conn.execute("delete from sign_in_attempts")
    answer = await window.request.post(f"{deployment.url}/session", data={"name": name, "password": PASSWORD})
    assert answer.ok, await answer.text()
    return Person(name, account.id, key, window, deployment)
