"""What an administrator changes: settings, routes, caps, accounts and their keys; and what is noted of it."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import Deployment, Person, sign_in_somebody
from tests.console.test_pages import faults

from ebbtide.accounts.roles import Role


@pytest.fixture
async def admin(deployment: Deployment, window: Page) -> Person:
    """An administrator, signed in."""
    return await sign_in_somebody(deployment, window, Role.ADMIN)


async def test_settings_are_changed_together_refused_together_and_reset(admin: Person) -> None:
    page = admin.page
    await admin.open("/admin/configuration?search=BATCH_RETENTION_DAYS")
    field = page.get_by_label("BATCH_RETENTION_DAYS", exact=True)
    await field.fill("0")
    save = page.get_by_role("button", name="Save")
    await save.click()
    await expect(page.get_by_role("alert")).to_contain_text("from 1 to 3,650")
    await field.fill("21")
    await save.click()
    await expect(page.get_by_text("Set here")).to_be_visible()
    stored = {entry["name"]: entry["value"] for entry in (await admin.call("GET", "/admin/config"))["data"]}
    assert stored["BATCH_RETENTION_DAYS"] == 21
    await page.get_by_role("button", name="Reset BATCH_RETENTION_DAYS").click()
    await page.get_by_role("button", name="Reset it").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(field).to_have_value("7 days")
    await admin.open(f"/admin/audit?actor={admin.account_id}&action=setting")
    rows = page.get_by_role("region", name="Audit log").get_by_role("row")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(2)).to_contain_text("nothing → 21")
    await expect(rows.nth(2)).to_contain_text(admin.name)


async def test_a_route_is_weighed_permitted_and_switched(admin: Person) -> None:
    page = admin.page
    await admin.open("/admin/models")
    model = page.get_by_role("region", name="org/for-admins", exact=True)
    route = model.get_by_role("listitem")
    await route.get_by_role("button", name="Change Weight").click()
    await page.get_by_role("textbox", name="Weight of").fill("2.5")
    await page.get_by_role("button", name="Save").click()
    await expect(route.get_by_role("button", name="Change Weight")).to_contain_text("2.5")
    await route.get_by_text("No", exact=True).click()
    switch = route.get_by_role("switch")
    await switch.click()
    await page.get_by_role("button", name="Switch it off").click()
    await expect(route).to_contain_text("Switched off")
    told = (await admin.call("GET", "/admin/models/org/for-admins"))["routes"][0]["route"]
    assert (told["weight"], told["batch_allowed_choice"], told["enabled"]) == (2.5, False, False)
    await switch.click()
    await expect(switch).to_be_checked()


async def test_a_model_gets_a_cap_and_loses_it(admin: Person) -> None:
    page = admin.page
    await admin.open("/admin/models?search=for-admins")
    cap = page.get_by_role("button", name="Change Batch Concurrency")
    for typed, shown in (("0", "Paused (0)"), ("", "(default)")):
        await cap.click()
        await page.get_by_role("textbox", name="Batch Concurrency of").fill(typed)
        await page.get_by_role("button", name="Save").click()
        await expect(cap).to_contain_text(shown)


async def test_an_account_is_made_changed_suspended_and_deleted(admin: Person) -> None:
    page = admin.page
    name = f"made-by-{admin.name}"
    await admin.open("/admin/accounts")
    await page.get_by_role("button", name="New account").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_role("button", name="Make the account").click()
    await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    account = page.url.rpartition("/")[2]
    await page.get_by_role("button", name="Change").click()
    assert await faults(page) == []
    await page.get_by_label("Daily quota").fill("12.5")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("$12.50")).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Suspend").click()
    await page.get_by_role("button", name="Suspend it").click()
    await expect(page.get_by_text("Suspended", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Let it act again").click()
    await expect(page.get_by_text("Active", exact=True)).to_be_visible()
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("button", name="Delete the account").click()
    await expect(page.get_by_text("Deleted", exact=True)).to_be_visible()
    assert (await admin.call("GET", "/admin/accounts?state=deleted&limit=1000"))["data"][-1]["id"] == account


async def test_the_last_words_about_a_refused_change_are_the_gateways(admin: Person) -> None:
    page = admin.page
    await admin.open("/admin/accounts")
    await page.get_by_role("button", name="New account").click()
    await page.get_by_label("Name", exact=True).fill(admin.name)
    await page.get_by_role("button", name="Make the account").click()
    await expect(page.get_by_role("alert")).to_contain_text(admin.name)


async def test_an_administrator_makes_bounds_and_revokes_a_key_for_another(admin: Person) -> None:
    page = admin.page
    account = (await admin.call("POST", "/admin/accounts", json={"name": f"for-{admin.name}"}))["id"]
    await admin.open(f"/admin/accounts/{account}")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_label("Name").fill("handed over")
    await page.get_by_role("button", name="Make the key").click()
    secret = await page.get_by_label("The new key").locator("visible=true").last.inner_text()
    assert "ebb-" in secret
    await page.get_by_role("button", name="I have copied it").click()
    menu = page.get_by_role("button", name="What to do with the key handed over")
    await menu.click()
    await page.get_by_role("menuitem", name="Change its budgets").click()
    await page.get_by_label("Daily budget").fill("3")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("$3.00 a day")).to_be_visible()
    await menu.click()
    await page.get_by_role("menuitem", name="Revoke").click()
    await page.get_by_role("button", name="Revoke the key").click()
    await expect(page.get_by_text("Revoked", exact=True)).to_be_visible()
