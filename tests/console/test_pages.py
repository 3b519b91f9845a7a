"""What holds of every page: it is accessible in light and dark, it is reached by keyboard, and asks no other host."""

from __future__ import annotations

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
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_SERIOUS = ("serious", "critical")
_RUN = """async () => {
    const found = await axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']});
    return found.violations.map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map((one) => one.html)}));
}"""


async def faults(page: Page) -> list[Any]:
    """What axe finds in light and dark that is serious. It is run past the page's policy."""
    session = await page.context.new_cdp_session(page)
    await session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    found: list[Any] = []
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", scheme)
        found += [(scheme, fault) for fault in await page.evaluate(_RUN) if fault["impact"] in _SERIOUS]
    return found


async def test_axe_finds_no_serious_fault(person: Person) -> None:
    page = person.page
    batch = await person.batch([request_line("good"), request_line("bad", text="behave:status=400")], "Mixed")
    await person.ended(batch)
    await page.emulate_media(reduced_motion="reduce")
    found = {}
    for path in PATHS:
        await person.open(path.format(batch=batch))
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        if "{batch}" in path:
            await page.get_by_role("button", name="good").click()
        found[path] = await faults(page)
    await person.open("/keys")
    await page.get_by_role("button", name="New key").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    found["new key"] = await faults(page)
    await page.context.clear_cookies()
    await person.open("/")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    found["sign in"] = await faults(page)
    told = [f"{path} ({scheme}): {fault}" for path, faults in found.items() for scheme, fault in faults]
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
