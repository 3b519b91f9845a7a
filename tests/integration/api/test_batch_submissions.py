"""POST /user/batches: what was checked is what is submitted, once; a key or model that changed since is refused."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway import Answer, Headers, TestGateway, request_line
from tests.people import create_account, create_key

from ebbtide.accounts.roles import Role
from ebbtide.clock import SystemClock

ONCE: Headers = {"Idempotency-Key": "console-1"}


async def two_keys(gateway: TestGateway) -> tuple[str, str]:
    now = SystemClock().now()
    account = await create_account(gateway.database, "ada", Role.INTERNAL, now)
    keys = [await create_key(gateway.database, account.id, now=now) for _ in range(2)]
    return keys[0][1], keys[1][1]


async def checked(gateway: TestGateway, key: str, name: str = "short") -> dict[str, Any]:
    """A submission of one request whose file names the model so."""
    lines = json.dumps(request_line("a", "chat-1")).encode()
    found = (await gateway.call("POST", "/user/batch-checks", key=key, data=lines)).json
    file = (await gateway.upload(lines, key=key)).json
    return {
        "input_file_id": file["id"],
        "endpoint": "/v1/chat/completions",
        "metadata": {"name": "Rivers"},
        "checked": {"key_id": found["key_id"], "model": found["model"], "names": [name]},
    }


async def submit(gateway: TestGateway, body: Any, key: str, headers: Headers = ONCE) -> Answer:
    return await gateway.call("POST", "/user/batches", key=key, headers=headers, json=body)


async def test_a_checked_file_is_submitted_once_and_answered_again_whatever_changed_since(gateway: TestGateway) -> None:
    key, other_key = await two_keys(gateway)
    wanted = await checked(gateway, key)
    made = await submit(gateway, wanted, key)
    assert made.status == 200, made.body
    assert (made.json["metadata"], made.json["completion_window"]) == ({"name": "Rivers"}, "24h")
    again = await submit(gateway, wanted | {"checked": wanted["checked"] | {"model": "gone"}}, other_key)
    assert (again.status, again.json["id"]) == (200, made.json["id"])
    other = await submit(gateway, wanted | {"metadata": {}}, key)
    assert (other.status, other.error["code"]) == (409, "idempotency_conflict")


async def test_what_changed_since_the_check_is_refused_and_nothing_is_stored(gateway: TestGateway) -> None:
    key, other_key = await two_keys(gateway)
    wanted = await checked(gateway, key)
    found = wanted["checked"]
    answers = [await submit(gateway, wanted, other_key)]
    for change in ({"model": "embed-1"}, {"names": ["short", "nobody's"]}, {"names": ["org/for-admins"]}):
        answers.append(await submit(gateway, wanted | {"checked": found | change}, key))
    assert [(answer.status, answer.error["code"]) for answer in answers] == [(409, "check_again")] * 4
    assert ["API key" in answer.error["message"] for answer in answers] == [True, False, False, False]
    faults: tuple[dict[str, Any], ...] = (
        {"checked": None},
        {"endpoint": "/v1/responses"},
        {"requests": []},
        {"metadata": {"name": 1}},
    )
    for wrong in faults:
        assert (await submit(gateway, wanted | wrong, key)).status == 400
    assert (await gateway.call("GET", "/v1/batches", key=key)).json["data"] == []
    assert (await submit(gateway, wanted, key)).status == 200


async def test_the_copy_of_a_file_is_uploaded_unlisted(gateway: TestGateway) -> None:
    source = (await gateway.upload(b"one\n")).json
    copy = await gateway.upload(b"two\n", source_file_id=source["id"])
    assert copy.status == 200, copy.body
    assert [file["id"] for file in (await gateway.call("GET", "/v1/files")).json["data"]] == [source["id"]]
    assert (await gateway.call("GET", f"/v1/files/{copy.json['id']}/content")).body == b"two\n"
    refused = await gateway.upload(b"two\n", source_file_id=copy.json["id"])
    assert (refused.status, refused.error["param"]) == (400, "source_file_id")
