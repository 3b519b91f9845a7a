"""The rules that the page and the gateway both hold a file to: one table of files, told alike by the page's worker, as
it is built, and by /user/batch-checks; and where the page is stricter.
"""

from __future__ import annotations

import base64
import json
from io import BytesIO
from typing import Any, NamedTuple

from playwright.async_api import expect
from tests.console.conftest import Person

from ebbtide.api.console import FILES

LINE_BYTES = 4 * 1024 * 1024
BODY = {"model": "chat-1", "messages": [{"role": "user", "content": "Hi"}]}
_SURVEY = """async ([worker, content, limits]) => {
    const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
    const job = {kind: 'survey', file: new Blob([bytes]), limits};
    const running = new Worker(worker, {type: 'module'});
    return await new Promise((resolve, reject) => {
        running.onmessage = ({data}) => data.kind === 'progress' || resolve(data);
        running.onerror = (event) => reject(new Error(event.message));
        running.postMessage(job);
    }).finally(() => running.terminate());
}"""


def line(custom_id: Any = "a", **changes: Any) -> bytes:
    """One whole line; a member that is changed to None is left out."""
    members = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": BODY} | changes
    return json.dumps({name: value for name, value in members.items() if value is not None}).encode()


def said(content: bytes) -> bytes:
    """A line whose message holds these bytes as JSON has them."""
    return line().replace(b'"Hi"', content)


def also(content: bytes) -> bytes:
    """A line whose body has another member with this value."""
    return line().replace(b'"messages"', b'"top_p": ' + content + b', "messages"')


class Case(NamedTuple):
    """A file, and the problems as (line, code) that the page finds in it; the gateway's, where they are others."""

    content: bytes
    page: tuple[tuple[int | None, str], ...] = ()
    gateway: tuple[tuple[int | None, str], ...] | None = None


INVALID = ((1, "invalid_json_line"),)
WRONG = ((1, "invalid_request"),)
CASES = {
    "a good line": Case(line()),
    "no newline at the end, and CRLF": Case(line("a") + b"\r\n" + line("b")),
    "blank lines count as lines": Case(b"\n \t\x0b\x0c\r\n" + line(5), ((3, "invalid_request"),)),
    "a line of a space that JSON does not know": Case(line() + b"\n\xc2\xa0\n", ((2, "invalid_json_line"),)),
    "no custom_id": Case(line(None), WRONG),
    "an empty custom_id": Case(line(""), WRONG),
    "a number as custom_id": Case(line(7), WRONG),
    "a custom_id with a NUL": Case(line("a\0"), WRONG),
    "a custom_id of 512 characters outside the basic plane": Case(line("\U0001f30a" * 512)),
    "a custom_id of 513 characters": Case(line("x" * 513), WRONG),
    "a custom_id twice": Case(line("a") + b"\n" + line("b") + b"\n" + line("a"), ((3, "duplicate_custom_id"),)),
    "another method": Case(line(method="GET"), WRONG),
    "another endpoint": Case(line(url="/v1/responses"), ((1, "url_mismatch"),)),
    "no body": Case(line(body=None), WRONG),
    "a list as body": Case(line(body=[]), WRONG),
    "a list as line": Case(b"[1]", INVALID),
    "a string as line": Case(b'"a"', INVALID),
    "a line that breaks off": Case(line()[:-1], INVALID),
    "two values in a line": Case(line() + line(), INVALID),
    "a comma too many": Case(line()[:-1] + b",}", INVALID),
    "a number with a zero before it": Case(also(b"01"), INVALID),
    "a point without digits": Case(also(b"1."), INVALID),
    "a word that JSON does not know": Case(also(b"True"), INVALID),
    "a bare control character": Case(said(b'"\x01"'), INVALID),
    "an escape that JSON does not know": Case(said(b'"\\x41"'), INVALID),
    "escapes, a line separator and a NUL in what is said": Case(said(b'"\\u0000\\n\\u00e9 \xe2\x80\xa8"')),
    "more levels than a body may have": Case(also(b"[" * 70 + b"]" * 70), (), INVALID),
    "a line that is too long": Case(said(b'"' + b"x" * LINE_BYTES + b'"'), ((1, "line_too_long"),)),
    "nothing": Case(b"\n\n", ((None, "empty_file"),)),
    # The same lines are refused, in other words.
    "NaN": Case(also(b"NaN"), ((1, "not_finite"),), INVALID),
    "too large to be finite": Case(also(b"1e999"), ((1, "not_finite"),), INVALID),
    "no UTF-8": Case(said(b'"\xff"'), ((1, "not_utf8"),), INVALID),
    # The page is stricter: /v1/batches takes these.
    "a byte-order mark": Case(b"\xef\xbb\xbf" + line(), ((1, "byte_order_mark"),), ()),
    "a repeated key": Case(line()[:-1] + b', "custom_id": "b"}', ((1, "repeated_key"),), ()),
    "a member that is not forwarded": Case(line(priority=1), ((1, "field_not_forwarded"),), ()),
    "a user": Case(line(body=BODY | {"user": "ada"}), ((1, "field_not_forwarded"),), ()),
    "max_completion_tokens": Case(line(body=BODY | {"max_completion_tokens": 5}), ((1, "field_not_forwarded"),), ()),
}


async def test_the_page_and_the_gateway_find_the_same_wrong_with_a_file(person: Person) -> None:
    await person.open("/keys")
    await expect(person.page.get_by_role("heading", level=1)).to_be_visible()
    told = (await person.call("GET", "/user/batch-capabilities"))["limits"]
    limits = {
        "fileBytes": told["file_bytes"],
        "lineBytes": told["line_bytes"],
        "requests": told["requests_per_batch"],
        "customId": told["custom_id_characters"],
    }
    assert limits["lineBytes"] == LINE_BYTES
    [worker] = [path.name for path in (FILES / "assets").glob("worker-*.js")]
    found, wanted = {}, {}
    for what, case in CASES.items():
        content = base64.b64encode(case.content).decode()
        page = await person.page.evaluate(_SURVEY, [f"/console/assets/{worker}", content, limits])
        checked = await person.call(
            "POST", "/user/batch-checks?endpoint=/v1/chat/completions", data=BytesIO(case.content)
        )
        found[what] = (
            tuple((one["line"], one["code"]) for one in page["result"]["problems"]["listed"]),
            tuple((one.get("line"), one["code"]) for one in checked["problems"]),
        )
        wanted[what] = (case.page, case.page if case.gateway is None else case.gateway)
    assert found == wanted
