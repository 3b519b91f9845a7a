"""Takes the pictures in docs/images/console/: every page of the console, light and dark, of a gateway with a past.

python -m docs.screenshots                    # all of them, in some two minutes; needs Chromium
python -m docs.screenshots admin-models phone # those whose name contains one of the words
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from docs.showcase import PASSWORD, Showcase, showcase
from playwright.async_api import Browser, FilePayload, Page, async_playwright, expect

FOLDER = Path(__file__).parent / "images" / "console"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LAPTOP, _PHONE = (1280, 800), (390, 844)
_TALLEST = 1_300
_EXTENT = "[document.documentElement.scrollWidth, document.querySelector('main').scrollHeight]"
Scheme = Literal["light", "dark"]
_LINES = [
    json.dumps(
        {
            "custom_id": f"report-{number + 1:03}",
            "body": {
                "model": "gpt-oss-120b",
                "messages": [{"role": "user", "content": f"Sum up field report {number + 1} in one sentence."}],
                "max_tokens": 200,
            },
        }
    )
    for number in range(240)
]
_BAD_LINES = [
    '{"custom_id": "report-007", "body": {"model": "gpt-oss-120b", "messages": []}}',
    '{"custom_id": "late-1", "body": {"model": "gpt-oss-120b", "messages": [], "user": "ada"}}',
    '{"custom_id": "late-2", "body": {"model": "gpt-oss-120b", "messages": [], "top_p": NaN}}',
    '{"custom_id": "late-3", "body": {"model": "gpt-oss-120b", "messages": [}}',
]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


@dataclass(frozen=True)
class Shot:
    """A page as one account sees it (None: who is not signed in), after `then`.

    On a laptop the window is as high as the page, up to a limit.
    """

    name: str
    member: str | None
    path: str
    then: Callable[[Page], Awaitable[None]] | None = None
    size: tuple[int, int] = _LAPTOP


async def pick_a_bar(page: Page) -> None:
    await page.get_by_role("group", name="Request volume over time").get_by_role("button").nth(-4).click()
    await expect(page.get_by_text("Window:")).to_be_visible()
    await page.mouse.move(0, 0)


async def open_a_request(page: Page) -> None:
    await page.get_by_role("region", name="Requests").get_by_role("link").first.click()
    await expect(page.get_by_role("heading", name="Content")).to_be_visible()


async def open_a_stored_request(page: Page) -> None:
    await page.get_by_role("main").locator("button[aria-expanded]:not([aria-haspopup])").first.click()


async def wait_for_its_pace(page: Page) -> None:
    await expect(page.get_by_text("Succeeded", exact=True).nth(1)).to_be_visible(timeout=60_000)
    await expect(page.get_by_text(re.compile(r"^(?!0\.0 )\d+\.\d / (s|min)$"))).to_be_visible(timeout=60_000)


async def choose_a_bad_file(page: Page) -> None:
    await _choose(page, _LINES + _BAD_LINES)
    await expect(page.get_by_role("region", name="Problems of the file")).to_be_visible()


async def choose_a_file(page: Page) -> None:
    await _choose(page, _LINES)
    await expect(page.get_by_role("button", name="Configure")).to_be_visible()


async def configure_it(page: Page) -> None:
    await choose_a_file(page)
    await page.get_by_role("button", name="Configure").click()
    await page.get_by_label("Description").fill("Whatever came in this week")


async def check_it(page: Page) -> None:
    await configure_it(page)
    await page.get_by_role("button", name="Check every line").click()
    await expect(page.get_by_text("Every line is good")).to_be_visible()


async def _choose(page: Page, lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    file = FilePayload(name="week-48.jsonl", mimeType="application/jsonl", buffer=content)
    await page.get_by_label("The file of requests").set_input_files(file)


async def open_set_up(page: Page) -> None:
    """The page of a gateway that has no administrator yet; this one has, and is told not to say so."""
    closed = re.compile(r"/setup$")
    await page.route(closed, lambda route: route.fulfill(json={"object": "setup", "open": True, "oidc": False}))
    await page.reload()
    await expect(page.get_by_label("Set-up code")).to_be_visible()
    await page.unroute(closed)


async def ask_for_a_key(page: Page) -> None:
    await page.get_by_role("button", name="New key").click()
    await page.get_by_label("Name").fill("nightly-summaries")


async def change_a_setting(page: Page) -> None:
    await page.get_by_label("BATCH_ENABLED", exact=True).focus()
    await page.get_by_label("BATCH_INTERACTIVE_RESERVE", exact=True).fill("4")


def shots(of: Showcase) -> list[Shot]:
    """Every page. One that shows much also as on a phone."""
    research = of.members["research"].account_id
    return [
        Shot("set-up", None, "/", open_set_up),
        Shot("sign-in", None, "/"),
        Shot("overview", "research", "/"),
        Shot("batches", "research", "/batches"),
        Shot("batch-running", "research", f"/batches/{of.running}", wait_for_its_pace),
        Shot("batch", "research", f"/batches/{of.with_issues}", open_a_stored_request),
        Shot("create", "research", "/batches/new"),
        Shot("create-problems", "research", "/batches/new", choose_a_bad_file),
        Shot("create-upload", "research", "/batches/new", choose_a_file),
        Shot("create-configure", "research", "/batches/new", configure_it),
        Shot("create-confirm", "research", "/batches/new", check_it),
        Shot("keys", "research", "/keys"),
        Shot("keys-new", "research", "/keys", ask_for_a_key),
        Shot("usage", "research", "/usage"),
        Shot("webhook", "research", "/webhook"),
        Shot("own-account", "research", "/account"),
        Shot("quickstart", "research", "/quickstart"),
        Shot("admin", "ada", "/admin"),
        Shot("admin-batches", "ada", "/admin/batches"),
        Shot("admin-prompts", "ada", f"/admin/batches/{of.with_issues}", open_a_stored_request),
        Shot("admin-batch-requests", "ada", "/admin/batch-requests"),
        Shot("admin-requests", "ada", "/admin/requests", pick_a_bar),
        Shot("admin-request", "ada", "/admin/requests", open_a_request),
        Shot("admin-models", "ada", "/admin/models"),
        Shot("admin-accounts", "ada", "/admin/accounts"),
        Shot("admin-account", "ada", f"/admin/accounts/{research}"),
        Shot("admin-configuration", "ada", "/admin/configuration", change_a_setting),
        Shot("admin-workers", "ada", "/admin/workers"),
        Shot("admin-audit", "ada", "/admin/audit"),
        Shot("admin-refused", "research", "/admin"),
        Shot("phone-batch", "research", f"/batches/{of.running}", wait_for_its_pace, _PHONE),
        Shot("phone-batches", "research", "/batches", None, _PHONE),
        Shot("phone-admin", "ada", "/admin", None, _PHONE),
        Shot("phone-admin-batches", "ada", "/admin/batches", None, _PHONE),
        Shot("phone-admin-requests", "ada", "/admin/requests", None, _PHONE),
        Shot("phone-admin-audit", "ada", "/admin/audit", None, _PHONE),
        Shot("phone-admin-models", "ada", "/admin/models", None, _PHONE),
        Shot("phone-admin-configuration", "ada", "/admin/configuration", None, _PHONE),
    ]


class Camera:
    """A signed-in window for each account and size."""

    def __init__(self, browser: Browser, of: Showcase) -> None:
        self._browser = browser
        self._of = of
        self._pages: dict[tuple[str | None, tuple[int, int]], Page] = {}

    async def take(self, shot: Shot) -> None:
        page = await self._page(shot.member, shot.size)
        await page.goto(f"{self._of.gateway.url}/console{shot.path}")
        await self._settled(page)
        if shot.then is not None:
            await shot.then(page)
            await self._settled(page)
        width, height = await page.evaluate(_EXTENT)
        if shot.size == _LAPTOP:
            await page.set_viewport_size({"width": shot.size[0], "height": min(max(height, shot.size[1]), _TALLEST)})
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
            await page.screenshot(path=FOLDER / f"{shot.name}-{scheme}.png")
        await page.set_viewport_size({"width": shot.size[0], "height": shot.size[1]})
        if width > shot.size[0]:
            sys.exit(f"{shot.name} is wider than the window: {width} px")

    async def _page(self, member: str | None, size: tuple[int, int]) -> Page:
        if (member, size) not in self._pages:
            context = await self._browser.new_context(
                viewport={"width": size[0], "height": size[1]}, locale="en-GB", timezone_id="Europe/Berlin"
            )
            page = await context.new_page()
            if member is not None:
                await self._sign_in(page, member)
            self._pages[member, size] = page
        return self._pages[member, size]

    async def _sign_in(self, page: Page, member: str) -> None:
        given = {"name": member, "password": PASSWORD}
        signed_in = await page.request.post(f"{self._of.gateway.url}/session", data=given)
        if not signed_in.ok:
            raise RuntimeError(await signed_in.text())

    @staticmethod
    async def _settled(page: Page) -> None:
        await expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=20_000)
        await expect(page.get_by_role("status", name="Loading")).to_have_count(0, timeout=20_000)
        await page.wait_for_load_state("load")


async def take_all(words: list[str], folder: Path) -> None:
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        sys.exit("no Chromium was found")
    async with showcase(folder) as of, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        camera = Camera(browser, of)
        for shot in shots(of):
            if words == [] or any(word in shot.name for word in words):
                await camera.take(shot)
        await browser.close()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ebb-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        asyncio.run(take_all(sys.argv[1:], Path(folder)))


if __name__ == "__main__":
    main()
