"""API keys in the console: making one, replacing one, revoking one."""

from __future__ import annotations

from playwright.async_api import expect
from tests.console.conftest import Person


async def test_a_key_is_made_works_is_replaced_and_revoked(person: Person) -> None:
    page, gateway = person.page, person.deployment.gateway
    await person.open("/keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_role("textbox", name="Name").fill("nightly")
    await page.get_by_role("textbox", name="Daily budget").fill("2.5")
    await page.get_by_role("button", name="Make the key").click()
    secret = await page.get_by_label("Your new key").locator("pre").inner_text()
    assert (await gateway.call("GET", "/user", key=secret)).status == 200
    await page.get_by_role("button", name="I have copied it").click()
    row = page.get_by_role("row", name="nightly")
    await expect(row).to_contain_text("$2.50 a day")
    await expect(page.get_by_text(secret)).to_have_count(0)

    await row.get_by_role("button").click()
    await page.get_by_role("menuitem", name="Make a replacement").click()
    await expect(page.get_by_role("textbox", name="Daily budget")).to_have_value("$2.5")
    await page.get_by_role("button", name="Make the key").click()
    second = await page.get_by_label("Your new key").locator("pre").inner_text()
    await page.get_by_role("button", name="I have copied it").click()
    await expect(row).to_have_count(2)

    await row.first.get_by_role("button").click()
    await page.get_by_role("menuitem", name="Revoke").click()
    await page.get_by_role("button", name="Revoke the key").click()
    await expect(row.first).to_contain_text("Revoked")
    assert (await gateway.call("GET", "/user", key=secret)).status == 401
    assert (await gateway.call("GET", "/user", key=second)).status == 200


async def test_a_budget_that_is_too_large_is_refused_in_place(person: Person) -> None:
    page = person.page
    async with person.deployment.database.transaction() as conn:
        await conn.execute(
            "update api_keys set daily_budget_usd = 1 where account_id = $1 and name = 'console'", person.account_id
        )
    await person.open("/keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_role("textbox", name="Name").fill("greedy")
    await page.get_by_role("textbox", name="Daily budget").fill("7")
    await page.get_by_role("button", name="Make the key").click()
    await expect(page.get_by_role("alert")).to_contain_text("at most 1")
