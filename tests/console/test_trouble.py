"""The console when something is away or in the way: the gateway, a stream, the network, the clipboard."""

from __future__ import annotations

from playwright.async_api import Page, Route, expect
from tests.console.conftest import Deployment, Person, sign_in_somebody
from tests.gateway import request_line, until

from ebbtide.accounts.roles import Role

# As when somebody comes back to the tab.
BACK = "window.dispatchEvent(new Event('visibilitychange'))"


async def lose(route: Route) -> None:
    await route.abort()


async def test_a_gateway_that_is_away_is_told_and_asked_again(person: Person) -> None:
    page = person.page
    await page.route("**/user/keys*", lose)
    await person.open("/keys")
    await expect(page.get_by_role("alert")).to_contain_text("This page tries again by itself")
    await page.unroute("**/user/keys*")
    await expect(page.get_by_role("region", name="API keys")).to_be_visible()


async def test_what_could_not_be_read_anew_is_shown_as_out_of_date(person: Person) -> None:
    page = person.page
    await person.ended(await person.batch([request_line("a")], "Rivers"))
    await person.open("/batches")
    table = page.get_by_role("region", name="Batches")
    await expect(table.get_by_role("link")).to_have_text(["Rivers"])

    async def busy(route: Route) -> None:
        error = {"message": "Too many at once", "type": "rate_limit_error", "param": None, "code": None}
        await route.fulfill(status=400, json={"error": error})

    await page.route("**/user/batches?*", busy)
    outdated = page.get_by_text("may be out of date")

    async def told() -> bool:
        await page.evaluate(BACK)  # which reads anew what was read some seconds ago
        return await outdated.count() == 1

    await until(told)
    await expect(outdated).to_contain_text("Too many at once")
    await expect(table.get_by_role("link")).to_have_text(["Rivers"])
    await page.unroute("**/user/batches?*")
    await page.get_by_role("button", name="Try again").click()
    await expect(outdated).to_have_count(0)


async def test_a_browser_that_believes_itself_offline_still_asks_the_gateway(person: Person) -> None:
    page = person.page
    await person.open("/")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.evaluate("window.dispatchEvent(new Event('offline'))")
    await page.get_by_role("link", name="API keys").click()
    await expect(page.get_by_role("region", name="API keys")).to_be_visible()


async def test_a_refused_stream_is_opened_again(person: Person) -> None:
    page, upstream = person.page, person.deployment.upstream
    upstream.latency = 3_600
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        refused.append(route.request.url)
        await (route.fulfill(status=503) if len(refused) == 1 else route.continue_())

    try:
        batch = await person.batch([request_line("a")], "Watched")
        await page.route(f"**/v1/batches/{batch}/events", refuse)
        await person.open(f"/batches/{batch}")
        await expect(page.get_by_text("1 not finished")).to_be_visible()

        async def asked_again() -> bool:
            return len(refused) > 1

        await until(asked_again)
    finally:
        upstream.latency = 0
        upstream.hurry()
    await expect(page.get_by_text("1 succeeded")).to_be_visible()


async def test_what_is_shown_once_is_copied_without_a_clipboard_too(person: Person) -> None:
    page = person.page
    # As on a page that is served over plain HTTP.
    await page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    await page.add_init_script(
        "document.addEventListener('copy', (event) => { window.copied = event.target.value; }, true)"
    )
    await person.open("/keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_role("textbox", name="Name").fill("copied")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Your new key")
    await dialog.get_by_role("button", name="Copy all of it").click()
    await expect(dialog.get_by_role("button", name="Copied", exact=True)).to_be_focused()
    assert await page.evaluate("window.copied") == await dialog.locator("pre").inner_text()


async def test_the_focus_returns_from_a_dialog_and_enter_destroys_nothing(person: Person) -> None:
    page = person.page
    await person.call("POST", "/user/keys", json={"name": "kept"})
    await person.open("/keys")
    new = page.get_by_role("button", name="New key")
    await new.click()
    await page.get_by_role("button", name="Not now").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(new).to_be_focused()
    menu = page.get_by_role("row", name="kept").get_by_role("button")
    await menu.click()
    await page.get_by_role("menuitem", name="Revoke").click()
    await expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(menu).to_be_focused()
    await expect(page.get_by_role("row", name="kept")).to_contain_text("Active")


async def test_who_signs_in_in_another_tab_sees_nothing_of_who_was_here(deployment: Deployment, window: Page) -> None:
    first = await sign_in_somebody(deployment, window, Role.INTERNAL)
    await first.call("POST", "/user/keys", json={"name": "only mine"})
    await first.open("/keys")
    await expect(window.get_by_role("row", name="only mine")).to_be_visible()
    second = await sign_in_somebody(deployment, window, Role.INTERNAL)  # the cookie is one for all tabs
    await window.evaluate(BACK)
    await expect(window.get_by_role("button", name=f"Account {second.name}")).to_be_visible()
    await expect(window.get_by_role("region", name="API keys")).to_be_visible()
    await expect(window.get_by_role("row", name="only mine")).to_have_count(0)


async def test_a_page_of_another_version_says_what_to_do(person: Person) -> None:
    page = person.page
    await person.open("/")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.route("**/console/assets/*", lose)
    await page.get_by_role("link", name="Quickstart").click()
    await expect(page.get_by_role("alert")).to_contain_text("Load the page again")
