"""The webhook in the console: set up, told of a batch's end, a new secret, removed."""

from __future__ import annotations

from playwright.async_api import expect
from tests.console.conftest import Person
from tests.gateway import request_line, until
from tests.webhook_receiver import Receiver


async def test_a_webhook_is_set_up_delivers_and_is_removed(person: Person) -> None:
    page = person.page
    async with Receiver(None, "127.0.0.1") as receiver:
        await person.open("/batches")
        await page.get_by_role("main").get_by_role("link", name="Webhook").click()
        await page.get_by_label("Address").fill("ftp://127.0.0.1/x")
        await page.get_by_role("button", name="Set up").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await page.get_by_label("Address").fill(f"http://127.0.0.1:{receiver.port}/hook")
        await page.get_by_role("button", name="Set up").click()
        secret = await page.get_by_label("The signing secret").locator("pre").inner_text()
        assert secret.startswith("whsec_")
        await page.get_by_role("button", name="I have copied it").click()
        await expect(page.get_by_text("Nothing was sent yet")).to_be_visible()

        batch = await person.batch([request_line("a")])
        await person.ended(batch)
        await receiver_got(receiver)
        await page.reload()
        await expect(page.get_by_role("row", name="batch.completed")).to_contain_text("Delivered")

        await page.get_by_role("button", name="New signing secret").click()
        await page.get_by_role("button", name="Make a new secret").click()
        assert await page.get_by_label("The signing secret").locator("pre").inner_text() != secret
        await page.get_by_role("button", name="I have copied it").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_role("button", name="Remove the webhook").click()
        await page.get_by_role("button", name="Remove it").click()
        await expect(page.get_by_role("button", name="Set up")).to_be_visible()


async def receiver_got(receiver: Receiver) -> None:
    async def got() -> bool:
        return bool(receiver.got)

    await until(got, within=30)
