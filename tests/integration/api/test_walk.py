"""Every route as somebody else's, a lower role's or a dead key's: the walk goes by the table of routes itself.

A route that takes an id and stands in none of the tables below fails its test: say there whose the id is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from tests import people
from tests.gateway import Answer, TestGateway, request_line, start_gateway, until

from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.api.routing import Admin, Closed
from ebbtide.api.server import ENDPOINTS
from ebbtide.clock import SystemClock
from ebbtide.settings.snapshot import SettingsSource

ID = re.compile(r"{\w+(?::path)?}")
MARK = "only-for-the-owners-eyes"
PASSWORD = "correct horse battery"
# Whose the id of a closed route is, by what its path begins with; ids that belong to nobody are OF_ALL.
OWNED = {
    "/v1/batches/": "batch",
    "/user/batches/": "batch",
    "/v1/files/": "file",
    "/user/keys/": "key",
    "/user/requests/": "request",
    "/v1beta/batches/": "gemini_batch",
    "/v1beta/files/": "file",
} | {f"{prefix}/v1/messages/batches/": "message_batch" for prefix in ("", "/anthropic")}
OF_ALL = ("/v1/models/", "/anthropic/v1/models/", "/v1beta/models/", "/v1/responses/")  # no response is kept
# What the cursor of a list is the id of, by its path.
CURSORS = {
    "/v1/batches": "batch",
    "/user/batches": "batch",
    "/v1/files": "file",
    "/user/keys": "key",
}
# Places below what the caller must own, or in what is the caller's own.
OWN_CURSORS = ("/v1/batches/{id}/results", "/v1/batch_webhook/events", "/user/requests", "/user/batches/{id}/requests")
UNKNOWN = {
    "batch": f"batch_{'0' * 32}",
    "message_batch": f"msgbatch_{'0' * 32}",
    "gemini_batch": "0" * 32,
    "file": f"file-{'0' * 32}",
    "key": f"key_{'0' * 32}",
    "request": "log_1_1",
}
BODIES: Mapping[str, Any] = {"/user/keys/{id}": {"daily_budget_usd": "0.01"}}
CLOSED = [one for one in ENDPOINTS if isinstance(one, Closed) and not isinstance(one, Admin)]
ADMIN = [one for one in ENDPOINTS if isinstance(one, Admin)]
METHODS = [(method, one) for one in CLOSED for method in (("GET", "HEAD") if one.method == "GET" else (one.method,))]


@dataclass(frozen=True)
class Owner:
    """Somebody with one of everything: `ids` by kind, an API key, and the cookie of a session."""

    ids: Mapping[str, str]
    secret: str
    cookie: str

    @property
    def marks(self) -> list[str]:
        """What nobody else may ever be shown."""
        return [*self.ids.values(), MARK, self.secret, self.cookie]


@pytest.fixture
async def gateway(database_url: str, listen_url: str, models: Path) -> AsyncIterator[TestGateway]:
    """With everything switched on that can be."""
    environ = {"BATCH_MESSAGE_BATCHES": "on"}
    async with start_gateway(database_url, models, role="api", listen_url=listen_url, environ=environ) as gateway:
        yield gateway


@pytest.fixture
async def owner(gateway: TestGateway) -> Owner:
    now = SystemClock().now()
    account = await people.create_account(gateway.database, MARK, Role.INTERNAL, now)
    key, secret = await people.create_key(gateway.database, account.id, name=MARK, now=now)
    sessions = Sessions(gateway.database, SystemClock(), SettingsSource.from_environ({}), Passwords())
    await sessions.set_password(account.id, PASSWORD, "cli:test")
    entered = await gateway.call("POST", "/session", key=None, json={"name": MARK, "password": PASSWORD})
    line = request_line(MARK, text=MARK)
    chat = await gateway.call("POST", "/v1/chat/completions", key=secret, json=line["body"])
    assert chat.status == 200
    batch = await gateway.call("POST", "/v1/batches", key=secret, json={"requests": [line], "metadata": {"m": MARK}})
    native = {"custom_id": "one", "params": {"max_tokens": 9, **line["body"]}}
    headers = {"anthropic-version": "2023-06-01"}
    path = "/v1/messages/batches"
    messages = await gateway.call("POST", path, key=secret, headers=headers, json={"requests": [native]})
    assert messages.status == 200, messages.body
    asked = {"request": {"contents": [{"parts": [{"text": MARK}]}]}, "metadata": {"m": MARK}}
    gemini = await gateway.call(
        "POST",
        f"/v1beta/models/{line['body']['model']}:batchGenerateContent",
        key=secret,
        json={"batch": {"inputConfig": {"requests": {"requests": [asked]}}}},
    )
    assert gemini.status == 200, gemini.body
    file = await gateway.upload(MARK.encode(), f"{MARK}.jsonl", key=secret)
    hook = {"url": f"https://8.8.8.8/{MARK}"}  # nothing is sent there: no batch ends here
    assert (await gateway.call("PUT", "/v1/batch_webhook", key=secret, json=hook)).status == 200

    async def logged() -> Any:
        return (await gateway.call("GET", "/user/requests", key=secret)).json["data"]

    [row] = await until(logged)
    ids = {
        "account": account.id,
        "key": key.id,
        "batch": batch.json["id"],
        "message_batch": messages.json["id"],
        "gemini_batch": gemini.json["name"].removeprefix("batches/"),
        "file": file.json["id"],
    }
    ids["request"] = row["id"]
    return Owner(ids, secret, SimpleCookie(entered.headers["set-cookie"])["ebbtide_session"].value)


def kind_of(path: str) -> str | None:
    """What the id in a path is of; None for a path without one, or one that is open to all."""
    if not ID.search(path) or path.startswith(OF_ALL):
        return None
    found = [kind for begin, kind in OWNED.items() if path.startswith(begin)]
    assert found, f"{path}: whose is the id? Write it into OWNED or OF_ALL"
    return found[0]


def said(answer: Answer) -> str:
    """What an error says; beside it, some dialects' bodies hold the request's id."""
    return repr(answer.json["error"]) if answer.body else ""


def at(path: str, an_id: str) -> str:
    return ID.sub(an_id, path)


async def seen_by(gateway: TestGateway, owner: Owner) -> dict[str, Any]:
    """Everything that the owner's own GETs tell, by its session: that one must live on too."""
    seen = {}
    cookie = {"Cookie": f"ebbtide_session={owner.cookie}"}
    for one in CLOSED:
        if one.method != "GET" or one.path.endswith("/events") or one.path.startswith(OF_ALL):
            continue
        path = at(one.path, owner.ids.get(kind_of(one.path) or "", ""))
        answer = await gateway.call("GET", path, key=None, headers=cookie)
        assert answer.status < 500, (path, answer.body)
        seen[path] = answer.body if answer.status == 200 else said(answer)
    return seen


async def test_what_is_somebody_elses_is_answered_like_what_is_not_there(gateway: TestGateway, owner: Owner) -> None:
    before = await seen_by(gateway, owner)
    stranger = await gateway.new_key("stranger", Role.INTERNAL)
    for method, one in METHODS:
        kind, body = kind_of(one.path), BODIES.get(one.path, {})
        if kind is None:
            continue
        found = await gateway.call(method, at(one.path, owner.ids[kind]), key=stranger, json=body)
        missing = await gateway.call(method, at(one.path, UNKNOWN[kind]), key=stranger, json=body)
        assert (found.status, missing.status) == (404, 404), (method, one.path, found.body)
        worded = said(found).replace(owner.ids[kind], UNKNOWN[kind])
        assert worded == said(missing), (method, one.path)
    assert (await gateway.call("DELETE", "/sessions", key=stranger)).json == {"ended": 0}
    assert await seen_by(gateway, owner) == before


async def test_no_list_no_cursor_and_no_input_shows_what_is_somebody_elses(gateway: TestGateway, owner: Owner) -> None:
    stranger = await gateway.new_key("stranger", Role.INTERNAL)
    for one in CLOSED:
        if one.method != "GET" or ID.search(one.path):
            continue
        answer = await gateway.call("GET", one.path, key=stranger)
        assert answer.status in {200, 404}, (one.path, answer.body)
        assert not [mark for mark in owner.marks if mark.encode() in answer.body], one.path
    with_cursor = [one for one in CLOSED if any(told.name == "after" for told in one.described.parameters)]
    for one in with_cursor:
        if one.path in OWN_CURSORS:
            continue
        kind = CURSORS[one.path]  # KeyError: a new list; say what its cursor is the id of
        answers = [
            await gateway.call("GET", one.path, key=stranger, params={"after": cursor})
            for cursor in (owner.ids[kind], UNKNOWN[kind])
        ]
        assert {answer.status for answer in answers} == {400}, one.path
        assert answers[0].body.replace(owner.ids[kind].encode(), UNKNOWN[kind].encode()) == answers[1].body
    as_input = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answers = [
        await gateway.call("POST", "/v1/batches", key=stranger, json=as_input | {"input_file_id": file_id})
        for file_id in (owner.ids["file"], UNKNOWN["file"])
    ]
    assert {answer.status for answer in answers} <= {400, 404}
    assert answers[0].body.replace(owner.ids["file"].encode(), UNKNOWN["file"].encode()) == answers[1].body


async def test_admin_routes_refuse_lower_roles_alike_whatever_is_named(gateway: TestGateway, owner: Owner) -> None:
    lower = [await gateway.new_key(role.value, role) for role in (Role.FREE, Role.PRO, Role.INTERNAL)]
    cookie = {"Cookie": f"ebbtide_session={owner.cookie}"}
    refusals = set()
    assert ADMIN
    for one, key in zip(ADMIN, itertools.cycle(lower), strict=False):
        for named in (owner.ids["batch"], "unknown") if ID.search(one.path) else ("",):
            answer = await gateway.call(one.method, at(one.path, named), key=key, json={})
            assert answer.status == 403, (one.method, one.path)
            refusals.add(answer.body)
        if one.method == "GET":
            by_session = await gateway.call("GET", at(one.path, "unknown"), key=None, headers=cookie)
            assert by_session.status == 403, one.path
    assert len(refusals) == 1


async def test_a_dead_key_opens_nothing_and_is_not_told_why(gateway: TestGateway) -> None:
    dead = await dead_keys(gateway)
    refusals = set()
    closed = [one for one in ENDPOINTS if isinstance(one, Closed)]
    for one, (why, key) in zip(closed, itertools.cycle(dead.items()), strict=False):
        answer = await gateway.call(one.method, at(one.path, "unknown"), key=key, json={})
        assert answer.status == 401, (one.method, one.path, why)
        refusals.add(answer.error["message"])
    assert len(refusals) == 1


async def dead_keys(gateway: TestGateway) -> dict[str, str]:
    """Administrators' keys that no longer are ones, by why."""
    database, now = gateway.database, SystemClock().now()
    account = await people.create_account(database, "keys", Role.ADMIN, now)
    revoked, revoked_secret = await people.create_key(database, account.id, now=now)
    await people.revoke_key(database, revoked.id, now)
    past = now - timedelta(hours=1)
    _, expired = await people.create_key(database, account.id, expires_in=timedelta(seconds=1), now=past)
    dead = {"revoked": revoked_secret, "expired": expired, "unknown": f"ebb-{'x' * 43}"}
    for state, end in (("suspended", people.suspend_account), ("deleted", people.delete_account)):
        other = await people.create_account(database, state, Role.ADMIN, now)
        _, dead[state] = await people.create_key(database, other.id, now=now)
        await end(database, other.id)
    return dead
