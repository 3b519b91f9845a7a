"""What was said, to administrators where the gateway keeps it; and an account that is removed for good, to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import Deployment, Person, sign_in_somebody
from tests.gateway import request_line

from ebbtide.accounts.roles import Role

KEPT = "DB_STORE_FULL_CONTENT"


@pytest.fixture
async def admin(deployment: Deployment, window: Page) -> Person:
    """An administrator, signed in."""
    return await sign_in_somebody(deployment, window, Role.ADMIN)


@pytest.fixture
async def content_kept(admin: Person) -> AsyncIterator[None]:
    await admin.call("PATCH", "/admin/config", json={KEPT: True})
    yield
    await admin.call("DELETE", f"/admin/config/{KEPT}")


@pytest.mark.usefixtures("content_kept")
async def test_content_is_shown_where_it_is_kept_and_every_look_is_noted(admin: Person) -> None:
    page = admin.page
    body = {"model": "chat-1", "messages": [{"role": "user", "content": "Is the tide in?"}]}
    assert (await admin.deployment.gateway.call("POST", "/v1/chat/completions", key=admin.key, json=body)).status == 200
    batch = await admin.batch(
        [request_line("a", text="Is it out?"), request_line("b", text="behave:status=400")], "Ebb"
    )
    await admin.ended(batch)

    await admin.open(f"/admin/requests?account={admin.account_id}&window=1h")
    await page.get_by_role("region", name="Requests").get_by_role("row").last.get_by_role("link").click()
    await expect(page.get_by_label("Request", exact=True)).to_contain_text("Is the tide in?")
    await expect(page.get_by_label("Answer", exact=True)).to_contain_text('"role": "assistant"')

    await admin.open(f"/admin/batches?account={admin.account_id}")
    await page.get_by_role("button", name=f"What to do with Ebb, {batch}").click()
    await page.get_by_role("menuitem", name="Prompts").click()
    await expect(page.get_by_role("heading", name="Prompts", level=1)).to_be_visible()
    await expect(page.get_by_role("main").get_by_role("button", name="Failed")).to_be_visible()
    await page.get_by_role("main").get_by_role("button", name="Succeeded").click()
    await expect(page.get_by_label("Request of a", exact=True)).to_contain_text("Is it out?")
    await expect(page.get_by_label("Answer of a", exact=True)).to_contain_text("assistant")

    looks = await admin.call("GET", f"/admin/audit?actor={admin.account_id}")
    noted = [(entry["action"], entry["account_id"]) for entry in looks["data"] if entry["action"].endswith(".read")]
    assert noted == [("batch.requests.read", admin.account_id), ("request.content.read", admin.account_id)]


async def test_prompts_are_withheld_where_content_is_not_kept(admin: Person) -> None:
    batch = await admin.batch([request_line("a")])
    await admin.open(f"/admin/batches/{batch}")
    await expect(admin.page.get_by_text("keeps no prompts for administrators")).to_be_visible()


async def test_an_account_is_removed_for_good_to_its_end(admin: Person) -> None:
    page = admin.page
    name = f"goes-{admin.name}"
    account = (await admin.call("POST", "/admin/accounts", json={"name": name, "role": "internal"}))["id"]
    await admin.call("POST", f"/admin/accounts/{account}/keys", json={})
    await admin.open(f"/admin/accounts/{account}")
    await page.get_by_role("button", name="More").click()
    await page.get_by_role("menuitem", name="Remove for good").click()
    remove = page.get_by_role("button", name="Remove it for good")
    await expect(remove).to_be_disabled()
    await page.get_by_label(f"Type {name}").fill(name)
    await remove.click()
    await expect(page.get_by_text("Asked for")).to_be_visible()
    async with admin.deployment.database.transaction() as conn:  # what was let in before has had its minute to end
        sooner = "update account_purges set asked_at = asked_at - interval '2 minutes' where account_id = $1"
        await conn.execute(sooner, account)
    await expect(page.get_by_text("It was removed for good")).to_be_visible()
    await expect(page.get_by_text("Removed for good:")).to_be_visible()
    await expect(page.get_by_role("button", name="More")).to_have_count(0)
    removal = await admin.call("GET", f"/admin/purges/{account}")
    assert (removal["state"], removal["rows_removed"]) == ("purged", 2)
    await admin.open("/admin/accounts?state=deleted")
    removals = page.get_by_role("region", name="Removals")
    await expect(removals.get_by_role("row").filter(has_text=account[:14])).to_contain_text("Done")
