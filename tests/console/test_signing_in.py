"""Set-up, signing in and out, and a session that ends under somebody's hands."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page, expect
from tests.console.conftest import PASSWORD, Deployment, Person, sign_in_somebody
from tests.gateway import chat_model, models_file, start_gateway

from ebbtide.accounts import setup
from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

FIELDS = ("Current password", "New password", "New password again")


async def test_whoever_has_the_code_sets_the_gateway_up(
    window: Page, database_url: str, listen_url: str, tmp_path: Path
) -> None:
    models = models_file(tmp_path, chat_model())
    async with start_gateway(database_url, models, role="api", listen_url=listen_url) as gateway:
        code = await setup.renew_code(gateway.database, "cli:test", SystemClock().now())
        await window.goto(gateway.url)  # which leads to the console
        await window.get_by_label("Set-up code").fill("WRONG-CODE")
        await window.get_by_label("Name").fill("ada@example.org")
        await window.locator("input[autocomplete=new-password]").fill(PASSWORD)
        await window.get_by_role("button", name="Make the administrator").click()
        await expect(window.get_by_role("alert")).to_be_visible()
        await window.get_by_label("Set-up code").fill(code)
        await window.get_by_role("button", name="Make the administrator").click()
        await expect(window.get_by_role("heading", name="Overview")).to_be_visible()
        await expect(window.get_by_role("button", name="Account ada@example.org")).to_be_visible()
        assert not (await gateway.call("GET", "/setup", key=None)).json["open"]


async def test_a_wrong_password_is_told_and_the_right_one_leads_to_the_page_that_was_asked_for(
    deployment: Deployment, window: Page
) -> None:
    somebody = await sign_in_somebody(deployment, window, Role.INTERNAL)
    await window.context.clear_cookies()
    await somebody.open("/keys")
    await window.get_by_label("Name").fill(somebody.name)
    await window.locator("input[autocomplete=current-password]").fill("not the password")
    await window.get_by_role("button", name="Sign in", exact=True).click()
    await expect(window.get_by_role("alert")).to_contain_text("not right")
    await window.locator("input[autocomplete=current-password]").fill(PASSWORD)
    await window.keyboard.press("Enter")
    await expect(window.get_by_role("heading", name="API keys")).to_be_visible()
    assert window.url.endswith("/console/keys")


async def test_signing_out_ends_the_session_and_shows_nothing_more(person: Person) -> None:
    await person.open("/")
    await person.page.get_by_role("button", name=f"Account {person.name}").click()
    await person.page.get_by_role("menuitem", name="Sign out").click()
    await expect(person.page.get_by_role("heading", name="Sign in")).to_be_visible()
    answer = await person.page.request.get(f"{person.deployment.url}/session")
    assert answer.status == 401


async def test_a_session_that_ended_asks_to_sign_in_and_goes_on_where_it_was(person: Person) -> None:
    await person.open("/batches?search=never")
    await expect(person.page.get_by_text("No batch fits")).to_be_visible()
    async with person.deployment.database.transaction() as conn:
        await conn.execute("delete from sessions where account_id = $1", person.account_id)
    await person.page.get_by_role(
        "button", name="Show all batches"
    ).click()  # the next thing that is asked of the gateway
    await expect(person.page.get_by_text("Your session has ended")).to_be_visible()
    await person.page.get_by_label("Name").fill(person.name)
    await person.page.locator("input[autocomplete=current-password]").fill(PASSWORD)
    await person.page.keyboard.press("Enter")
    await expect(person.page.get_by_role("heading", name="Batches")).to_be_visible()


async def test_somebody_changes_their_password_and_then_signs_out_everywhere(person: Person) -> None:
    page = person.page
    other = await page.context.browser.new_context()  # type: ignore[union-attr]
    signed_in = await other.request.post(
        f"{person.deployment.url}/session", data={"name": person.name, "password": PASSWORD}
    )
    assert signed_in.ok
    await person.open("/")
    await page.get_by_role("button", name=f"Account {person.name}").click()
    await page.get_by_role("menuitem", name="Your account").click()
    await expect(page.get_by_role("heading", name="Your account")).to_be_visible()
    current, fresh, again = (page.get_by_label(name, exact=True) for name in FIELDS)
    change = page.get_by_role("button", name="Change the password")
    await current.fill("not the password")
    await fresh.fill("another battery staple")
    await again.fill("another battery")
    await expect(page.get_by_text("It differs from the one above")).to_be_visible()
    await expect(change).to_be_disabled()
    await again.fill("another battery staple")
    await change.click()
    await expect(page.get_by_role("alert")).to_contain_text("current password is not right")
    await current.fill(PASSWORD)
    await change.click()
    await expect(page.get_by_text("Your password is changed")).to_be_visible()
    await expect(current).to_have_value("")
    assert (await other.request.get(f"{person.deployment.url}/session")).status == 401
    await other.close()

    await page.get_by_role("button", name="Sign out everywhere").click()
    await page.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    await page.get_by_label("Name").fill(person.name)
    await page.locator("input[autocomplete=current-password]").fill("another battery staple")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Your account")).to_be_visible()


async def test_a_lower_role_sees_no_batches_until_it_has_some(deployment: Deployment, window: Page) -> None:
    somebody = await sign_in_somebody(deployment, window, Role.FREE)
    await somebody.open("/")
    navigation = window.get_by_role("navigation", name="Console")
    await expect(navigation.get_by_role("link", name="API keys")).to_be_visible()
    await expect(navigation.get_by_role("link", name="Batches")).to_have_count(0)
    await somebody.open("/batches")
    await expect(window.get_by_text("Your role may not submit batches")).to_be_visible()
