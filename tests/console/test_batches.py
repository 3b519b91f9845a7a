"""Batches in the console: the list, a batch that runs to its end before one's eyes, and what can be done with one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.console.conftest import Deployment, Person, sign_in_somebody
from tests.gateway import request_line, until

from ebbtide.accounts.roles import Role


def lines(count: int, text: str = "Hello") -> list[dict[str, object]]:
    return [request_line(f"r{number}", text=text) for number in range(count)]


async def test_the_list_is_searched_and_filtered_by_the_url(person: Person) -> None:
    page = person.page
    good = await person.batch(lines(2), "Rivers of Europe")
    bad = await person.batch(lines(1, "behave:status=400"), "Lakes")
    await person.ended(good)
    await person.ended(bad)
    await person.open("/batches")
    table = page.get_by_role("region", name="Batches")
    await expect(table.get_by_role("link")).to_have_text(["Lakes", "Rivers of Europe"])
    await expect(table.get_by_role("row", name="Lakes")).to_contain_text("With issues")
    await expect(table.get_by_role("row", name="Rivers")).to_contain_text("2 of 2")
    await page.keyboard.press("/")
    await page.keyboard.type("river")
    await expect(table.get_by_role("link")).to_have_text(["Rivers of Europe"])
    await expect(page).to_have_url(re.compile(r"search=river"))
    await page.keyboard.press("Escape")
    await page.get_by_text("With issues", exact=True).first.click()
    await expect(table.get_by_role("link")).to_have_text(["Lakes"])
    await page.reload()
    await expect(table.get_by_role("link")).to_have_text(["Lakes"])
    await page.get_by_label("Search by name or id").fill(good)
    await expect(page.get_by_text("No batch fits")).to_be_visible()
    await page.get_by_role("button", name="Show all batches").click()
    await expect(table.get_by_role("link")).to_have_count(2)


async def test_pages_of_the_list_lead_there_and_back(person: Person) -> None:
    for number in range(21):
        await person.batch(lines(1), f"Batch {number}")
    await person.open("/batches")
    table = person.page.get_by_role("region", name="Batches")
    await expect(table.get_by_role("link")).to_have_count(20)
    await person.page.get_by_role("button", name="Next").click()
    await expect(table.get_by_role("link")).to_have_text(["Batch 0"])
    await person.page.get_by_role("button", name="Previous").click()
    await expect(table.get_by_role("link").first).to_have_text("Batch 20")


async def test_a_batch_runs_to_its_end_before_ones_eyes(person: Person) -> None:
    page, upstream = person.page, person.deployment.upstream
    upstream.latency = 3_600
    try:
        batch = await person.batch(lines(6), "Watched")
        await person.open(f"/batches/{batch}")
        await expect(page.get_by_role("heading", name="Watched")).to_be_visible()
        await expect(page.get_by_text("Processing")).to_be_visible()
        await expect(page.get_by_text("6 not finished")).to_be_visible()

        async def all_run() -> bool:
            return upstream.in_flight >= 6

        await until(all_run)
    finally:
        upstream.latency = 0
        upstream.hurry()
    await expect(page.get_by_text("6 succeeded")).to_be_visible()
    await expect(page.get_by_text("Completed").first).to_be_visible()
    await expect(page.get_by_role("button", name="Download results")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


async def test_a_window_that_closes_first_is_warned_of_while_one_looks(person: Person) -> None:
    page, upstream = person.page, person.deployment.upstream
    slow = [request_line(f"slow{number}", text="behave:latency=3600") for number in range(3)]
    batch = await person.batch([request_line("quick"), *slow], "Too late")
    await person.open(f"/batches/{batch}")
    await expect(page.get_by_text("1 succeeded")).to_be_visible()
    await expect(page.get_by_text("the window closes first")).to_have_count(0)
    async with person.deployment.database.transaction() as conn:
        await conn.execute(
            "update batch_jobs set in_progress_at = now() - interval '1 h', expires_at = now() + interval '1 h' "
            "where id = $1",
            batch,
        )
    await expect(page.get_by_text("the window closes first")).to_be_visible()
    await expect(page.get_by_text(re.compile("in [23] h"))).to_be_visible()
    await person.call("POST", f"/v1/batches/{batch}/cancel")
    upstream.hurry()
    await person.ended(batch)
    await expect(page.get_by_text("the window closes first")).to_have_count(0)


async def test_somebody_elses_requests_are_not_shown_where_they_are_not_kept(
    deployment: Deployment, window: Page
) -> None:
    somebody = await sign_in_somebody(deployment, window, Role.INTERNAL)
    batch = await somebody.batch([request_line("theirs", text="a secret of theirs")])
    await somebody.ended(batch)
    admin = await sign_in_somebody(deployment, window, Role.ADMIN)
    await admin.open(f"/batches/{batch}")
    await expect(window.get_by_text("only outcomes are shown")).to_be_visible()
    await window.get_by_role("button", name="theirs").click()
    await expect(window.get_by_label("Request of theirs")).to_have_count(0)
    await expect(window.get_by_text("a secret of theirs")).to_have_count(0)
    await expect(window.get_by_role("button", name="Retry")).to_have_count(0)


async def test_a_request_and_its_answer_stand_side_by_side_and_errors_are_counted(person: Person) -> None:
    page = person.page
    requests = [request_line("good", text="Hello there"), *lines(2, "behave:status=400")]
    batch = await person.batch(requests, "Mixed")
    await person.ended(batch)
    await person.open(f"/batches/{batch}")
    errors = page.get_by_role("region", name="Errors by code")
    await expect(errors.get_by_role("row").nth(1)).to_contain_text("invalid_request")
    await expect(errors.get_by_role("row").nth(1)).to_contain_text("2")
    await page.get_by_role("button", name="good").click()
    await expect(page.get_by_label("Request of good")).to_contain_text("Hello there")
    await expect(page.get_by_label("Answer of good")).to_contain_text("chat.completion")
    await errors.get_by_role("button", name="invalid_request").click()
    await expect(page.get_by_role("button", name="good")).to_have_count(0)
    await expect(page).to_have_url(re.compile("outcome=failed"))
    await page.get_by_label("Search by custom_id").fill("r1")
    await expect(page.locator("button[aria-expanded]:has-text('r0')")).to_have_count(0)
    await expect(page.locator("button[aria-expanded]:has-text('r1')")).to_have_count(1)


async def test_results_are_downloaded_as_the_api_gives_them(person: Person, tmp_path: Path) -> None:
    batch = await person.batch(lines(3))
    await person.ended(batch)
    await person.open(f"/batches/{batch}")
    async with person.page.expect_download() as started:
        await person.page.get_by_role("button", name="Download results").click()
    download = await started.value
    path = tmp_path / "results.jsonl"
    await download.save_as(path)
    assert download.suggested_filename == f"{batch}_output.jsonl"
    assert [json.loads(line)["custom_id"] for line in path.read_text().splitlines()] == ["r0", "r1", "r2"]


GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Hello Gemini"}]}]}
MESSAGES = {"model": "chat-1", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello Claude"}]}


async def test_batches_of_other_dialects_are_looked_at_and_downloaded_like_any_other(
    person: Person, tmp_path: Path
) -> None:
    page = person.page
    inline = {"requests": {"requests": [{"request": GEMINI, "metadata": {"key": "g"}}]}}
    wanted = {"batch": {"displayName": "Of Gemini", "inputConfig": inline}}
    made = await person.call("POST", "/v1beta/models/chat-1:batchGenerateContent", json=wanted)
    gemini = f"batch_{made['name'].removeprefix('batches/')}"
    requests = [{"custom_id": "of-claude", "params": MESSAGES}]
    version = {"anthropic-version": "2023-06-01"}
    messages = (await person.call("POST", "/v1/messages/batches", json={"requests": requests}, headers=version))["id"]
    for batch in (gemini, messages):
        await person.ended(batch)
    await person.open("/batches")
    table = page.get_by_role("region", name="Batches")
    await expect(table.get_by_role("row", name="Of Gemini")).to_contain_text("Gemini · Direct requests")
    await expect(table.get_by_role("row").filter(has_text="Messages · Message Batches")).to_contain_text("1 of 1")
    for batch, request, said in ((gemini, "request-0", "Hello Gemini"), (messages, "of-claude", "Hello Claude")):
        await person.open(f"/batches/{batch}")
        row = page.get_by_role("button", name=request)
        await expect(row).to_contain_text(f"the last: {said}")
        await row.click()
        await expect(page.get_by_label(f"Request of {request}")).to_contain_text(said)
        await expect(page.get_by_role("button", name="More to do with the batch")).to_have_count(0)
        async with page.expect_download() as started:
            await page.get_by_role("button", name="Download results").click()
        download = await started.value
        await download.save_as(tmp_path / batch)
        [line] = (tmp_path / batch).read_text().splitlines()
        assert json.loads(line)["custom_id"] == request


async def test_where_batches_are_switched_off_there_is_no_link_and_the_page_says_so(
    deployment: Deployment, window: Page
) -> None:
    admin = await sign_in_somebody(deployment, window, Role.ADMIN)
    await admin.call("PATCH", "/admin/config", json={"BATCH_ENABLED": False})
    try:
        await admin.open("/")
        navigation = window.get_by_role("navigation", name="Console")
        await expect(navigation.get_by_role("link", name="API keys")).to_be_visible()
        for name in ("Batches", "Webhook"):
            await expect(navigation.get_by_role("link", name=name, exact=True)).to_have_count(0)
        for path in ("/batches", "/batches/new"):
            await admin.open(path)
            await expect(window.get_by_text("Batch inference is not available on this gateway")).to_be_visible()
            await expect(window.get_by_role("link", name="Create batch")).to_have_count(0)
    finally:
        await admin.call("DELETE", "/admin/config/BATCH_ENABLED")
    await admin.open("/batches")
    await expect(window.get_by_role("main").get_by_role("link", name="Create batch")).to_be_visible()


async def test_cancel_asks_first_and_delete_removes(person: Person) -> None:
    page, upstream = person.page, person.deployment.upstream
    upstream.latency = 3_600
    try:
        batch = await person.batch(lines(3), "Unwanted")
        await person.open(f"/batches/{batch}")
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Keep it").click()
        assert (await person.call("GET", f"/v1/batches/{batch}"))["cancelling_at"] is None
        await page.get_by_role("button", name="Cancel", exact=True).click()
        await page.get_by_role("button", name="Cancel the batch").click()
        await expect(page.get_by_text(re.compile("Cancelled|Cancelling")).first).to_be_visible()
    finally:
        upstream.latency = 0
        upstream.hurry()
    await person.ended(batch)
    await page.reload()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete the batch").click()
    await expect(page).to_have_url(re.compile("/console/batches$"))
    answer = await person.deployment.gateway.call("GET", f"/v1/batches/{batch}", key=person.key)
    assert answer.status == 404


async def test_what_did_not_succeed_is_retried_as_a_new_batch(person: Person) -> None:
    page = person.page
    batch = await person.batch([request_line("good"), *lines(2, "behave:status=400")], "Mixed")
    await person.ended(batch)
    await person.open(f"/batches/{batch}")
    await page.get_by_role("button", name="Retry 2 unsuccessful").click()
    await expect(page).not_to_have_url(re.compile(batch))
    await expect(page.get_by_text("of 2", exact=False).first).to_be_visible()
    assert len((await person.call("GET", "/v1/batches"))["data"]) == 2


async def test_somebody_elses_batch_is_not_found(person: Person) -> None:
    await person.open("/batches/batch_" + "0" * 32)
    await expect(person.page.get_by_text("There is nothing here")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1360])
async def test_no_page_is_wider_than_its_window(person: Person, width: int) -> None:
    batch = await person.batch(lines(2), "A name that is rather long, as names of batches tend to be after a while")
    await person.ended(batch)
    await person.page.set_viewport_size({"width": width, "height": 800})
    for path in ("/", "/batches", f"/batches/{batch}", "/keys", "/usage", "/webhook", "/quickstart", "/account"):
        await person.open(path)
        await expect(person.page.get_by_role("heading", level=1)).to_be_visible()
        wide = await person.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, path
