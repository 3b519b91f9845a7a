"""What an administrator looks at: the deployment, all batches, the request log, workers; and who else does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, Route, expect
from tests.console.conftest import Deployment, Person, sign_in_somebody
from tests.console.test_pages import faults_of_pages
from tests.gateway import request_line

from ebbtide.accounts.roles import Role

PATHS = (
    "/admin",
    "/admin/batches",
    "/admin/batches/{batch}",
    "/admin/batch-requests?batch={batch}",
    "/admin/requests",
    "/admin/models",
    "/admin/accounts",
    "/admin/accounts/{account}",
    "/admin/configuration",
    "/admin/workers",
    "/admin/audit",
)


@pytest.fixture
async def admin(deployment: Deployment, window: Page) -> Person:
    """An administrator, signed in."""
    return await sign_in_somebody(deployment, window, Role.ADMIN)


@pytest.fixture
async def owner(browser: Browser, deployment: Deployment) -> AsyncIterator[Person]:
    """Somebody internal in another window, whose work the administrator looks at."""
    context = await browser.new_context()
    context.set_default_timeout(20_000)
    yield await sign_in_somebody(deployment, await context.new_page(), Role.INTERNAL)
    await context.close()


async def chat(person: Person, text: str = "Hello") -> None:
    body = {"model": "chat-1", "messages": [{"role": "user", "content": text}]}
    answer = await person.deployment.gateway.call("POST", "/v1/chat/completions", key=person.key, json=body)
    assert answer.status in (200, 400)


async def test_axe_finds_no_serious_fault_on_a_page_of_administration(admin: Person) -> None:
    batch = await admin.batch([request_line("good"), request_line("bad", text="behave:status=400")], "Mixed")
    await admin.ended(batch)
    await chat(admin)
    told = await faults_of_pages(admin, [path.format(batch=batch, account=admin.account_id) for path in PATHS])
    assert told == [], "\n".join(told)


async def test_the_deployment_is_told_and_leads_on(admin: Person) -> None:
    page = admin.page
    await chat(admin)
    failing = {
        "model_id": "chat-1",
        "route_id": "r",
        "state": "open",
        "since": None,
        "processes": 2,
        "last_error": "reset",
    }

    async def with_a_failing_route(route: Route) -> None:
        answer = await route.fetch()
        told = await answer.json()
        told["deployment"]["open_circuits"] = [failing]
        await route.fulfill(response=answer, json=told)

    await page.route("**/admin/overview", with_a_failing_route)
    await admin.open("/admin")
    concerns = page.get_by_role("status", name="What wants attention")
    await expect(concerns).to_contain_text("open in 2 processes: the connection broke before the answer")
    models = page.get_by_role("region", name="Load of each model")
    await expect(models.get_by_role("row", name="chat-1")).to_be_visible()
    await models.get_by_role("link", name="chat-1").click()
    await expect(page.get_by_role("heading", name="Models and routes", level=1)).to_be_visible()


async def test_everyones_batches_are_summed_narrowed_and_cancelled(admin: Person, owner: Person) -> None:
    page = admin.page
    done = await owner.batch([request_line("a"), request_line("b")], "Done work")
    await owner.ended(done)
    slow = await owner.batch([request_line(f"slow-{n}", text="behave:latency=30") for n in range(3)], "Slow work")
    await admin.open("/admin/batches")
    sums = page.get_by_role("region", name="Totals by account").get_by_role("row", name=owner.name)
    await expect(sums).to_contain_text("of 5")
    await sums.get_by_role("button", name=owner.name).click()
    listed = page.get_by_role("region", name="Everyone's batches").get_by_role("row")
    await expect(listed).to_have_count(3)
    await page.get_by_role("button", name=f"What to do with Slow work, {slow}").click()
    await expect(page.get_by_role("menuitem", name="Prompts")).to_have_count(0)
    await page.get_by_role("menuitem", name="Cancel").click()
    await page.get_by_role("button", name="Cancel the batch").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(listed.filter(has_text="Slow work")).to_contain_text("Cancel")
    await page.get_by_role("button", name=f"What to do with Done work, {done}").click()
    await page.get_by_role("menuitem", name="Requests").click()
    await expect(page.get_by_role("heading", name="Batch requests", level=1)).to_be_visible()
    rows = page.get_by_role("region", name="Requests").get_by_role("row")
    await expect(rows).to_have_count(3)
    await expect(rows.last).to_contain_text("try 1")


async def test_a_bar_narrows_recent_requests_to_its_window(admin: Person, owner: Person) -> None:
    page = admin.page
    await chat(owner, "behave:status=400")
    await owner.ended(await owner.batch([request_line("in the log of batches")]))
    await admin.open(f"/admin/requests?account={owner.account_id}&window=1h")
    rows = page.get_by_role("region", name="Requests").get_by_role("row")
    await expect(rows).to_have_count(2)
    await expect(rows.last).to_contain_text("400")
    bars = page.get_by_role("group", name="Request volume over time").get_by_role("button")
    await bars.first.click()
    await expect(page.get_by_text("Window:")).to_be_visible()
    await expect(page.get_by_text("No request fits")).to_be_visible()
    link = page.get_by_role("link", name="Batch requests of this window")
    assert "from=" in str(await link.get_attribute("href"))
    await page.get_by_role("button", name="Clear Window").click()
    await expect(rows).to_have_count(2)
    await rows.last.get_by_role("link").click()
    await expect(page.get_by_role("heading", name="Request", level=1)).to_be_visible()
    await expect(page.get_by_text("Nothing of what was said is kept")).to_be_visible()


async def test_workers_are_listed(admin: Person) -> None:
    await admin.open("/admin/workers")
    row = admin.page.get_by_role("region", name="Workers").get_by_role("row").last
    await expect(row).to_contain_text(str(admin.deployment.gateway.pid))
    await expect(row).to_contain_text("Alive")


async def test_a_lower_role_sees_nothing_of_administration(person: Person) -> None:
    page = person.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/admin", "/admin/configuration"):
        await person.open(path)
        await expect(page.get_by_text("This is for administrators")).to_be_visible()
    await expect(page.get_by_role("link", name="Configuration")).to_have_count(0)
    assert [url for url in asked if url.startswith(f"{person.deployment.url}/admin")] == []


async def test_an_ended_session_leads_back_to_the_page(admin: Person) -> None:
    page = admin.page
    await admin.open("/admin/workers")
    await expect(page.get_by_role("heading", name="Workers", level=1)).to_be_visible()
    await page.context.clear_cookies()
    await page.get_by_role("link", name="Audit log").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
