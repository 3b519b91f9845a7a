"""Create batch in the console: good and bad files, what is chosen, what is stored, and that it is submitted once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import FormData
from playwright.async_api import FilePayload, Page, Route, expect
from tests.console.conftest import PASSWORD, Person
from tests.console.test_pages import faults
from tests.gateway import request_line

NEW = "/batches/new"
SUBMISSIONS = "**/user/batches"
ON_A_BATCH = re.compile(r"/console/batches/batch_[0-9a-f]{32}$")


def jsonl(lines: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def bare(custom_id: str, **body: Any) -> dict[str, Any]:
    """A line that leaves out what may be left out."""
    return {"custom_id": custom_id, "body": {"model": "chat-1", "messages": [{"role": "user", "content": "Hi"}]} | body}


async def choose(page: Page, content: bytes, name: str = "rivers.jsonl") -> None:
    file = FilePayload(name=name, mimeType="application/jsonl", buffer=content)
    await page.get_by_label("The file of requests").set_input_files(file)


async def configure(page: Page) -> None:
    await page.get_by_role("button", name="Configure").click()


async def check(page: Page) -> None:
    await page.get_by_role("button", name="Check every line").click()
    await expect(page.get_by_text("Every line is good")).to_be_visible()


async def ready(person: Person, content: bytes, name: str = "rivers.jsonl") -> None:
    """At the last step, with this file checked."""
    await person.open(NEW)
    await choose(person.page, content, name)
    await configure(person.page)
    await check(person.page)


async def submit(page: Page) -> None:
    await page.get_by_role("button", name=re.compile(r"^Submit \d")).click()


async def batches_of(person: Person) -> list[Any]:
    return list((await person.call("GET", "/v1/batches"))["data"])


async def files_of(person: Person) -> list[Any]:
    return list((await person.call("GET", "/v1/files?purpose=batch"))["data"])


async def test_a_file_becomes_a_batch_in_three_steps(person: Person) -> None:
    page = person.page
    await person.open("/batches")
    await page.get_by_role("link", name="Create batch").click()
    await choose(page, jsonl([bare("a", seed=7), bare("b")]))
    await expect(page.get_by_text("The file is stored; nothing has run")).to_be_visible()
    await expect(page.get_by_role("button", name="Use rivers.jsonl")).to_be_visible()
    [source] = await files_of(person)
    await configure(page)
    await expect(page.get_by_label("Name", exact=True)).to_have_value("rivers")
    await page.get_by_label("Description").fill("All of them")
    await page.get_by_label("temperature").fill("0.25")
    await page.get_by_label("max_tokens").fill("100")
    await check(page)
    stored = page.get_by_label("The first stored requests")
    for words in ('"url": "/v1/chat/completions"', '"temperature": 0.25', '"max_tokens": 100', '"seed": 7'):
        await expect(stored).to_contain_text(words)
    await expect(page.get_by_text("24 hours to start")).to_be_visible()
    await expect(page.get_by_text("7 days after the batch has ended")).to_be_visible()
    await expect(page.get_by_text("Costs at most")).to_be_visible()
    assert await batches_of(person) == []
    await submit(page)
    await expect(page).to_have_url(ON_A_BATCH)
    [batch] = await batches_of(person)
    wanted = {"name": "rivers", "description": "All of them", "temperature": "0.25", "max_tokens": "100"}
    assert batch["metadata"] == wanted | {"source_file": "rivers.jsonl", "source_file_id": source["id"]}
    assert batch["input_file_id"] != source["id"], "what is stored is changed, so that the batch has its own copy"
    assert await files_of(person) == [source]
    await person.ended(batch["id"])
    shown = await person.call("GET", f"/user/batches/{batch['id']}/requests")
    assert [one["request"] for one in shown["data"]] == [
        bare("a", seed=7, temperature=0.25, max_tokens=100)["body"],
        bare("b", temperature=0.25, max_tokens=100)["body"],
    ]


BAD: list[tuple[str, bytes, str]] = [
    ("a byte-order mark", b"\xef\xbb\xbf" + jsonl([bare("a")]), "byte_order_mark"),
    (
        "a repeated key",
        b'{"custom_id": "a", "body": {"model": "chat-1", "messages": [], "messages": []}}',
        "repeated_key",
    ),
    ("NaN", b'{"custom_id": "a", "body": {"model": "chat-1", "messages": [], "top_p": NaN}}', "not_finite"),
    ("infinity", b'{"custom_id": "a", "body": {"model": "chat-1", "messages": [], "top_p": 1e999}}', "not_finite"),
    ("mixed types", jsonl([bare("a"), {"custom_id": "b", "body": {"model": "embed-1", "input": "x"}}]), "mixed_types"),
    ("a url that the body contradicts", jsonl([bare("a") | {"url": "/v1/embeddings"}]), "url_mismatch"),
    ("another endpoint", jsonl([bare("a") | {"url": "/v1/responses"}]), "url_mismatch"),
    ("max_completion_tokens", jsonl([bare("a", max_completion_tokens=5)]), "field_not_forwarded"),
    ("a user", jsonl([bare("a", user="ada")]), "field_not_forwarded"),
    ("a custom_id twice", jsonl([bare("a"), bare("a")]), "duplicate_custom_id"),
    ("no JSON", b'{"custom_id": "a", "body": {]}\n', "invalid_json_line"),
    ("no UTF-8", b'{"custom_id": "\xff"}\n', "not_utf8"),
    ("nothing", b"\n\n", "empty_file"),
]


async def test_what_is_wrong_with_a_file_is_told_by_line_and_downloaded(person: Person, tmp_path: Path) -> None:
    page = person.page
    await person.open(NEW)
    for what, content, code in BAD:
        await choose(page, content, f"{what}.jsonl")
        await expect(page.get_by_role("region", name="Problems of the file")).to_contain_text(code)
        await expect(page.get_by_role("button", name="Configure")).to_have_count(0)
    content = jsonl([bare("good"), bare('=1+"1"', user="secret words"), bare("c", user="x")])
    content += b'{"custom_id": "n", "body": {"top_p": NaN}}'
    await choose(page, content, "both.jsonl")
    await expect(page.get_by_text("There are 3 problems")).to_be_visible()
    texts = {}
    for ending in ("CSV", "JSONL"):
        async with page.expect_download() as started:
            await page.get_by_role("button", name=ending, exact=True).click()
        download = await started.value
        assert download.suggested_filename == f"both.jsonl.problems.{ending.lower()}"
        await download.save_as(tmp_path / ending)
        texts[ending] = (tmp_path / ending).read_text()
    problems = [json.loads(line) for line in texts["JSONL"].splitlines()]
    assert [(one["line"], one["custom_id"], one["field"]) for one in problems] == [
        (2, '=1+"1"', "body.user"),
        (3, "c", "body.user"),
        (4, "n", "body.top_p"),
    ]
    assert texts["CSV"].splitlines()[0] == "line,custom_id,field,code,message"
    assert texts["CSV"].splitlines()[1].startswith('2,"\'=1+""1""",body.user')
    assert "secret words" not in "".join(texts.values())


async def test_the_gateway_checks_what_the_page_does_not_know(person: Person) -> None:
    page = person.page
    await person.open(NEW)
    await choose(page, b"\n" + jsonl([bare("a"), bare("b", temperature="hot")]))
    await configure(page)
    await page.get_by_role("button", name="Check every line").click()
    row = page.get_by_role("region", name="Problems of the file").get_by_role("row").nth(1)
    await expect(row).to_contain_text("temperature")
    await expect(row.get_by_role("cell").first).to_have_text("3")
    await expect(page.get_by_role("button", name=re.compile("^Submit"))).to_have_count(0)
    await page.get_by_role("button", name="Back").click()
    await page.get_by_label("temperature").fill("1")  # which every request has then
    await check(page)


async def test_several_models_need_a_choice_and_an_alias_is_made_canonical(person: Person) -> None:
    page = person.page
    await person.open(NEW)
    await choose(page, jsonl([bare("a"), bare("b", model="org/for-admins")]))
    await configure(page)
    await expect(page.get_by_text("org/for-admins, which you cannot use")).to_be_visible()
    await expect(page.get_by_role("button", name="Check every line")).to_be_disabled()
    await page.get_by_role("combobox", name="Model").click()
    await page.get_by_role("option", name="chat-1").click()
    await check(page)
    await page.get_by_role("button", name="Back").click()
    await page.get_by_role("button", name="Back").click()
    await choose(page, jsonl([bare("a", model="fast")]))
    await configure(page)
    await page.get_by_role("combobox", name="Model").click()
    await page.get_by_role("option", name="The file’s model").click()
    await check(page)
    await expect(page.get_by_label("The first stored requests")).to_contain_text('"model": "chat-1"')


async def test_what_is_not_chosen_is_stored_as_the_file_has_it(person: Person) -> None:
    page = person.page
    messages = '[{"role": "user", "content": "\\u00e9 é"}]'
    body = f'{{"model" : "fast", "messages": {messages}, "seed": 12345678901234567, "top_p": 1.0}}'
    await ready(person, f'  {{"body": {body}, "custom_id": "a"}}\r\n'.encode())
    await submit(page)
    await expect(page).to_have_url(ON_A_BATCH)
    [batch] = await batches_of(person)
    path = f"/v1/files/{batch['input_file_id']}/content"
    stored = await person.deployment.gateway.call("GET", path, key=person.key)
    filled = '"method": "POST", "url": "/v1/chat/completions", '
    assert stored.body.decode() == f'{{{filled}"body": {body.replace("fast", "chat-1")}, "custom_id": "a"}}\n'


async def test_a_file_that_says_no_type_asks_for_it(person: Person) -> None:
    page = person.page
    await person.open(NEW)
    await choose(page, jsonl([{"custom_id": "a", "body": {"model": "embed-1", "input": "x", "messages": []}}]))
    await configure(page)
    await page.get_by_text("Embeddings", exact=True).click()
    await check(page)
    await expect(page.get_by_label("The first stored requests")).to_contain_text('"url": "/v1/embeddings"')


async def test_a_lost_answer_is_found_again_by_the_same_key(person: Person) -> None:
    page = person.page
    await ready(person, jsonl([bare("a")]))
    keys: list[str | None] = []

    async def lose(route: Route) -> None:
        keys.append(await route.request.header_value("idempotency-key"))
        if len(keys) == 1:
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await page.route(SUBMISSIONS, lose)
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await submit(page)
    await expect(page).to_have_url(ON_A_BATCH)
    assert len(set(keys)) == 1
    assert keys[0]
    assert len(await batches_of(person)) == 1


async def test_a_second_tab_finds_the_batch_of_the_first(person: Person) -> None:
    page = person.page
    second = await page.context.new_page()
    other = Person(person.name, person.account_id, person.key, second, person.deployment)
    await ready(person, jsonl([bare("a")]))
    await ready(other, jsonl([bare("a")]))

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route(SUBMISSIONS, lose)
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await submit(second)
    await expect(second).to_have_url(ON_A_BATCH)
    await page.unroute(SUBMISSIONS)
    await submit(page)  # whose submission the other tab has brought to its end
    await expect(page).to_have_url(second.url)
    assert len(await batches_of(person)) == 1
    [batch] = await batches_of(person)
    assert {file["filename"] for file in await files_of(person)} == {"rivers.jsonl"}
    assert batch["input_file_id"] not in {file["id"] for file in await files_of(person)}


async def test_a_reload_alone_tells_what_the_submission_made(person: Person) -> None:
    page = person.page
    await ready(person, jsonl([bare("a")]))

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route(SUBMISSIONS, lose)
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await page.unroute(SUBMISSIONS)
    await page.reload()
    await page.get_by_role("link", name="Open the batch").click()
    await expect(page).to_have_url(ON_A_BATCH)
    assert len(await batches_of(person)) == 1


_A_DAY_AGO = """() => new Promise((resolve) => {
    const request = indexedDB.open('ebbtide', 1);
    request.onsuccess = () => {
        const store = request.result.transaction('submissions', 'readwrite').objectStore('submissions');
        store.getAll().onsuccess = (event) => {
            for (const kept of event.target.result) store.put({...kept, sentAt: Date.now() - 25 * 3600 * 1000});
        };
        store.transaction.oncomplete = () => resolve();
    };
})"""


async def test_an_outcome_that_is_unknown_for_a_day_stops_and_asks(person: Person) -> None:
    page = person.page
    await ready(person, jsonl([bare("a")]))

    async def lose(route: Route) -> None:
        await route.abort()

    await page.route(SUBMISSIONS, lose)
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await page.unroute(SUBMISSIONS)
    await page.evaluate(_A_DAY_AGO)
    await ready(person, jsonl([bare("a")]))
    await submit(page)
    await expect(page.get_by_role("dialog")).to_contain_text("can create and bill a second batch")
    assert await batches_of(person) == []
    await page.get_by_role("button", name="Submit again").click()
    await expect(page).to_have_url(ON_A_BATCH)
    assert len(await batches_of(person)) == 1


async def test_the_first_step_tells_of_an_outcome_that_nobody_knows_any_more(person: Person) -> None:
    page = person.page
    await ready(person, jsonl([bare("a")]))
    await page.route(SUBMISSIONS, lambda route: route.abort())
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await page.unroute(SUBMISSIONS)
    await page.evaluate(_A_DAY_AGO)
    await page.reload()
    await expect(page.get_by_text("cannot be known any more")).to_be_visible()
    await expect(page.get_by_role("link", name="Look at your batches")).to_be_visible()
    assert await batches_of(person) == []
    await page.get_by_role("button", name="I have looked: forget it").click()
    await expect(page.get_by_text("cannot be known any more")).to_have_count(0)


async def test_a_submission_under_way_in_another_tab_is_told_as_such(person: Person) -> None:
    page, other = person.page, await person.page.context.new_page()
    await ready(person, jsonl([bare("a")]))
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/v1/files", held.put)
    await submit(page)
    upload = await held.get()
    await other.goto(f"{person.deployment.url}/console{NEW}")
    await expect(other.get_by_text("“rivers” is being submitted in another tab")).to_be_visible()
    await upload.continue_()
    await expect(page).to_have_url(ON_A_BATCH)
    await expect(other.get_by_text("is being submitted in another tab")).to_have_count(0)
    assert len(await batches_of(person)) == 1


async def test_without_a_key_a_file_is_stored_and_checked_and_submitting_leads_to_the_keys(person: Person) -> None:
    page = person.page
    none = {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}
    await page.route("**/user/keys?*", lambda route: route.fulfill(json=none))
    await ready(person, jsonl([bare("a")]))
    await expect(page.get_by_text("A batch runs under an API key and you have none")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^Submit"))).to_be_disabled()
    await page.get_by_role("link", name="make one").click()
    await expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    assert len(await files_of(person)) == 1
    assert await batches_of(person) == []


async def test_back_leads_a_step_back_and_a_reload_or_a_new_session_finds_the_file_again(person: Person) -> None:
    page = person.page
    await ready(person, jsonl([bare("a")]))
    here = page.get_by_role("list", name="Steps").locator("[aria-current=step]")
    await page.go_back()
    await expect(here).to_have_text("2. Configure")
    await page.go_back()
    await expect(here).to_have_text("1. Upload data")
    await expect(page.get_by_role("button", name="Configure")).to_be_visible()
    await page.go_forward()
    await page.get_by_label("Description").fill("Something else")
    await page.go_forward()  # what was checked is not this any more
    await expect(here).to_have_text("2. Configure")
    await page.reload()
    await expect(page.get_by_label("Name", exact=True)).to_have_value("rivers")
    await expect(page.get_by_label("Description")).to_have_value("Something else")
    await page.get_by_label("temperature").fill("0.5")
    async with person.deployment.database.transaction() as conn:
        await conn.execute("delete from sessions where account_id = $1", person.account_id)
    await page.get_by_role("button", name="Check every line").click()
    await expect(page.get_by_text("Your session has ended")).to_be_visible()
    await page.get_by_label("Name").fill(person.name)
    await page.locator("input[autocomplete=current-password]").fill(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Name", exact=True)).to_have_value("rivers")
    await expect(page.get_by_label("Description")).to_have_value("Something else")
    await check(page)
    await expect(page.get_by_label("The first stored requests")).to_contain_text('"temperature": 0.5')
    await choose_another(page)
    await expect(page.get_by_label("Name", exact=True)).to_have_value("lakes")
    assert sorted(file["filename"] for file in await files_of(person)) == ["lakes.jsonl", "rivers.jsonl"]


async def test_older_files_are_shown_when_they_are_asked_for(person: Person) -> None:
    page = person.page
    for number in range(21):
        form = FormData({"purpose": "batch"})
        form.add_field("file", jsonl([bare("a")]), filename=f"{number}.jsonl")
        await person.call("POST", "/v1/files", data=form)
    await person.open(NEW)
    rows = page.get_by_role("region", name="Stored files").get_by_role("row")
    await expect(rows).to_have_count(21)
    await page.get_by_role("button", name="Show older files").click()
    await expect(rows.last).to_contain_text("0.jsonl")
    await expect(rows).to_have_count(22)
    await expect(page.get_by_role("button", name="Show older files")).to_have_count(0)


async def choose_another(page: Page) -> None:
    for _ in range(2):
        await page.get_by_role("button", name="Back").click()
    await choose(page, jsonl([bare("b")]), "lakes.jsonl")
    await configure(page)


async def test_a_batch_of_direct_requests_cannot_be_copied(person: Person) -> None:
    batch = await person.batch([request_line("a")])
    await person.open(f"{NEW}?from={batch}")
    await expect(person.page.get_by_role("alert")).to_contain_text("can be copied")
    await expect(person.page.get_by_label("The file of requests")).to_be_attached()


async def test_what_changed_since_the_check_is_refused_and_checked_again(person: Person) -> None:
    page = person.page

    async def other_key(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json=await answer.json() | {"key_id": "key_" + "0" * 32})

    await page.route("**/user/batch-checks*", other_key)
    await ready(person, jsonl([bare("a")]))
    await page.unroute("**/user/batch-checks*")
    await submit(page)
    await expect(page.get_by_role("alert")).to_contain_text("API key has changed")
    await expect(page.get_by_role("button", name=re.compile("^Submit"))).to_have_count(0)
    assert await batches_of(person) == []
    [source] = await files_of(person)
    await page.get_by_role("button", name="Check every line again").click()
    await submit(page)
    await expect(page).to_have_url(ON_A_BATCH)
    [batch] = await batches_of(person)
    assert batch["metadata"]["source_file_id"] == source["id"]


async def test_a_batch_is_copied_with_its_file_and_settings_and_a_stored_file_is_deleted(
    person: Person, tmp_path: Path
) -> None:
    page = person.page
    await ready(person, jsonl([bare("a"), bare("b", messages=[{"role": "user", "content": "behave:status=400"}])]))
    await submit(page)
    await expect(page).to_have_url(ON_A_BATCH)
    batch = page.url.rsplit("/", 1)[1]
    await person.ended(batch)
    await page.reload()
    await page.get_by_role("button", name="More to do with the batch").click()
    async with page.expect_download() as started:
        await page.get_by_role("menuitem", name="Export unfinished requests").click()
    download = await started.value
    assert download.suggested_filename == f"{batch}_unfinished.jsonl"
    await download.save_as(tmp_path / "unfinished.jsonl")
    assert json.loads((tmp_path / "unfinished.jsonl").read_text())["custom_id"] == "b"
    await page.get_by_role("button", name="More to do with the batch").click()
    await page.get_by_role("menuitem", name="Copy as new batch").click()
    await configure(page)
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Copy of rivers")
    await check(page)
    await submit(page)
    await expect(page.get_by_role("heading", name="Copy of rivers")).to_be_visible()
    assert len(await files_of(person)) == 1  # the copy has the same source

    await person.open(NEW)
    await page.get_by_role("button", name="Delete rivers.jsonl").click()
    await page.get_by_role("button", name="Delete the file").click()
    await expect(page.get_by_text("No files are stored")).to_be_visible()
    await person.open(f"{NEW}?from={batch}")
    await expect(page.get_by_text("no longer stored: choose it again")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
async def test_each_step_is_accessible_and_fits_its_window(person: Person, width: int) -> None:
    page = person.page
    await page.set_viewport_size({"width": width, "height": 800})
    await person.open(NEW)
    found = []
    await choose(page, jsonl([bare("a", user="x" * 50)]), "a-file-with-a-name-that-is-rather-long-for-a-phone.jsonl")
    await expect(page.get_by_role("region", name="Problems of the file")).to_be_visible()
    found += await measured(page, width)
    await choose(page, jsonl([request_line("a"), bare("b")]))
    await expect(page.get_by_role("button", name="Configure")).to_be_visible()
    found += await measured(page, width)
    await configure(page)
    found += await measured(page, width)
    await check(page)
    found += await measured(page, width)
    assert found == []


async def measured(page: Page, width: int) -> list[Any]:
    """Serious faults, and whether the page is wider than its window."""
    wide = await page.evaluate("document.documentElement.scrollWidth")
    return [*await faults(page), *([] if wide <= width else [("too wide", wide)])]


async def test_the_keyboard_leads_through_the_steps(person: Person) -> None:
    page = person.page
    await person.open(NEW)
    await choose(page, jsonl([bare("a")]))
    steps = page.get_by_role("list", name="Steps").get_by_role("listitem")
    await page.get_by_role("button", name="Configure").press("Enter")
    await expect(steps.nth(1)).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Name", exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(steps.nth(2)).to_be_focused()
    await page.get_by_role("button", name="Back").press("Enter")
    await expect(steps.nth(1)).to_be_focused()
