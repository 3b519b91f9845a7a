"""What holds of every page: it is accessible in light and dark, it is reached by keyboard, and asks no other host."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.async_api import Page, Request, expect
from tests.console.conftest import Deployment, Person
from tests.gateway import request_line

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
PATHS = (
    "/",
    "/batches",
    "/batches/{batch}",
    "/batches/new",
    "/keys",
    "/usage",
    "/webhook",
    "/quickstart",
    "/account",
    "/no-such-page",
)
Then = Callable[[Page], Awaitable[None]]
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_OF_COLOUR = ("color-contrast", "link-in-text-block")  # what a scheme decides; all else is the same in both
_SERIOUS = ("serious", "critical")
_RUN = """async (only) => {
    const found = await axe.run(document, {runOnly: only, resultTypes: ['violations']});
    return found.violations.map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map((one) => one.html)}));
}"""
Scheme = Literal["light", "dark"]
_SCHEMES: tuple[tuple[Scheme, tuple[str, ...]], ...] = (("light", _TAGS), ("dark", _OF_COLOUR))


async def faults(page: Page) -> list[Any]:
    """What axe finds in light and dark that is serious. It is run past the page's policy."""
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    found: list[Any] = []
    for scheme, only in _SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        found += [(scheme, fault) for fault in await page.evaluate(_RUN, list(only)) if fault["impact"] in _SERIOUS]
    return found


async def faults_of_pages(person: Person, paths: Iterable[str], then: Then | None = None) -> list[str]:
    """The same of pages that are looked at in two tabs side by side; `then` does something on each first."""
    left = list(paths)
    told: list[str] = []

    async def look(page: Page) -> None:
        while left:
            path = left.pop(0)
            await page.goto(f"{person.deployment.url}/console{path}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
            if then is not None:
                await then(page)
            told.extend(f"{path} ({scheme}): {fault}" for scheme, fault in await faults(page))

    await asyncio.gather(look(person.page), look(await person.page.context.new_page()))
    return told


async def test_axe_finds_no_serious_fault(person: Person) -> None:
    page = person.page
    batch = await person.batch([request_line("good"), request_line("bad", text="behave:status=400")], "Mixed")
    await person.ended(batch)

    async def open_a_request(of: Page) -> None:
        if of.url.endswith(batch):
            await of.get_by_role("button", name="good").click()

    told = await faults_of_pages(person, [path.format(batch=batch) for path in PATHS], open_a_request)
    await person.open("/keys")
    await page.get_by_role("button", name="New key").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    told += [f"new key: {fault}" for fault in await faults(page)]
    await page.context.clear_cookies()
    await person.open("/")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    told += [f"sign in: {fault}" for fault in await faults(page)]
    assert told == [], "\n".join(told)


async def test_the_keyboard_leads_everywhere(person: Person) -> None:
    page = person.page
    await person.open("/")
    await expect(page.get_by_role("link", name="Webhook")).to_be_visible()  # places are known once their rights are
    for key, heading in (
        ("b", "Batches"),
        ("k", "API keys"),
        ("u", "Usage and spend"),
        ("q", "Quickstart"),
        ("w", "Webhook"),
    ):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_chosen_scheme_stays(person: Person) -> None:
    page = person.page
    await page.emulate_media(color_scheme="light")
    await person.open("/")
    await page.get_by_role("button", name=f"Account {person.name}").click()
    await page.get_by_role("menuitem", name="Dark").click()
    await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    await page.reload()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")


async def test_no_page_asks_another_host(person: Person, deployment: Deployment) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    person.page.on("request", note)
    for path in PATHS[:2]:
        await person.open(path)
        await expect(person.page.get_by_role("heading", level=1)).to_be_visible()
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith("data:")}
    assert hosts == {urlsplit(deployment.url).netloc}


async def test_snippets_name_this_gateway_and_the_chosen_model(person: Person) -> None:
    page = person.page
    await person.open("/quickstart")
    await expect(page.locator("pre")).to_contain_text(person.deployment.url)
    await expect(page.locator("pre")).to_contain_text("chat-1")
    await page.get_by_text("Submit a batch").click()
    await page.get_by_role("tab", name="OpenAI SDK").click()
    await expect(page.locator("pre")).to_contain_text("client.batches.create")


async def test_the_snippets_in_python_run_as_they_are(person: Person) -> None:
    page = person.page
    await person.open("/quickstart")
    snippets: list[str] = []
    for task, name, words in (
        ("Ask a model", "OpenAI", "client.chat.completions.create"),
        ("Ask a model", "Anthropic", "client.messages.create"),
        ("Ask a model", "Google", "client.models.generate_content"),
        ("Submit a batch", "OpenAI", "client.batches.create"),
        ("Submit a batch", "Google", "types.InlinedRequest"),
    ):
        await page.get_by_text(task).click()
        await page.get_by_role("tab", name=f"{name} SDK").click()
        await expect(page.locator("pre")).to_contain_text(words)
        snippets.append(await page.locator("pre").inner_text())
    environ = {**os.environ, "EBBTIDE_API_KEY": person.key}
    process = await asyncio.create_subprocess_exec(  # one for all, since loading the SDKs takes longest
        *(sys.executable, "-c", "\n".join(snippets)), env=environ, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    *answers, first, second = out.decode().splitlines()
    assert len(answers) == 3
    for url in (first, second):
        await page.goto(url)
        await expect(page.get_by_role("heading", name="Rivers")).to_be_visible()


async def test_the_snippets_for_a_shell_run_with_a_key_in_them(person: Person, tmp_path: Path) -> None:
    page = person.page
    await person.open("/quickstart")
    programs = ("Command line", "curl") if shutil.which("curl") else ("Command line",)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for task, told in (("Ask a model", "chat-1"), ("Submit a batch", "batch_")):
        await page.get_by_text(task).click()
        for program in programs:
            await page.get_by_role("tab", name=program).click()
            await expect(page.locator("pre")).to_contain_text("curl -s" if program == "curl" else "ebbtide ")
            script = (await page.locator("pre").inner_text()).replace("ebb-…", person.key)
            process = await asyncio.create_subprocess_exec(
                *("sh", "-ec", script), cwd=tmp_path, env={**os.environ, "PATH": path}, stdout=PIPE, stderr=PIPE
            )
            out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            assert told in out.decode(), program
    for batch in (await person.call("GET", "/v1/batches"))["data"]:
        assert (await person.ended(batch["id"]))["request_counts"]["completed"] == 2


async def test_use_is_told_by_day_model_and_key(person: Person) -> None:
    page = person.page
    await person.ended(await person.batch([request_line("a"), request_line("b")]))
    await person.open("/usage?measure=requests")
    row = page.get_by_role("region", name="Use by model").get_by_role("row", name="chat-1")
    await expect(row).to_contain_text("2")
    bars = page.get_by_role("group", name="Use by day (UTC)").get_by_role("button")
    await bars.last.click()
    await expect(page.get_by_role("button", name="show all days").first).to_be_visible()
    await expect(row).to_be_visible()
    await bars.first.click()
    await expect(row).to_have_count(0)
