"""No secret gets out: every one that a deployment knows is looked for in its whole log, answers, metrics and database.

The gateway logs at debug; its upstream tells the key it was sent in every kind of failure.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests import people
from tests.fake_upstream import Behaviour, FakeUpstream, Received, closed_port
from tests.gateway import Answer, chat_model, models_file, request_line, until
from tests.processes import GatewayProcess, Processes, holds

from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.api.routing import Closed
from ebbtide.api.server import ENDPOINTS
from ebbtide.clock import SystemClock
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database

pytestmark = pytest.mark.processes
# Letters and digits alone, so that no encoding hides them, and of no known key's form, so that no pattern finds them.
GIVEN = {
    name: f"{name}canary7f3a9c"
    for name in (
        *("firstkey", "secondkey", "literalkey", "metricstoken", "oidcsecret", "dbpassword", "alerturl"),
        *("ownpassword", "newpassword", "wrongpassword", "badkey", "query", "body", "prompt"),
    )
}
# What a caller wrote into a request that failed may stand in the answer to it, nowhere else; prompts are content.
SAID = {"badkey", "query", "body", "prompt", "wrongpassword"}
# What the gateway has to present itself, and so keeps as it is.
KEPT = {"webhook": {"batch_webhooks"}, "alerturl": {"settings"}}
FAILURES = {
    "bad": Behaviour(status=400),
    "forbidden": Behaviour(status=403),
    "broken": Behaviour(status=500),
    "told": Behaviour(do="error200"),
    "late": Behaviour(do="stream-error"),
    "odd": Behaviour(do="truncated"),
    "busy": Behaviour(status=429, retry_after="0"),
    "key": Behaviour(status=401),  # last: after this, the key that was refused rests
}


def telling(request: Received) -> Behaviour | None:
    """The failure that the request's text names, with the key it was sent in its words."""
    failure = FAILURES.get(request.text.split()[0])
    told = request.headers.get("authorization", "")
    return failure and replace(failure, message=f"{told} is wrong: key={told.removeprefix('Bearer ')}")


@dataclass
class Seen:
    """Everything the gateway answered; `shown` are secrets that an answer showed because they were new."""

    gateway: GatewayProcess
    answers: dict[str, bytes] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, *, once: bool = False, **sent: Any) -> Answer:
        """One request; `once`: its answer is where a new secret is shown, and is not looked through."""
        answer = await self.gateway.call(method, path, **sent)
        if not once:
            head = repr(dict(answer.headers)).encode()
            self.answers[f"{len(self.answers)} {method} {path}"] = head + answer.body
        return answer

    def leaks(self, secrets: dict[str, str]) -> list[tuple[str, str]]:
        return [
            (name, where)
            for name, secret in secrets.items()
            for where, answer in self.answers.items()
            if secret.encode() in answer
        ]


def with_password(url: str) -> str:
    """The database's URL with a password that the server does not ask for, unless it has its own."""
    parts = urlsplit(url)
    if parts.password:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace("@", f":{GIVEN['dbpassword']}@", 1)))


async def sign_in(seen: Seen, database: Database) -> dict[str, str]:
    """Somebody at the console, who changes the password: the headers of the session."""
    account = await people.create_account(database, "ada", Role.ADMIN, SystemClock().now())
    sessions = Sessions(database, SystemClock(), SettingsSource.from_environ({}), Passwords())
    await sessions.set_password(account.id, GIVEN["ownpassword"], "cli:test")
    wrong = {"name": "ada", "password": GIVEN["wrongpassword"]}
    assert (await seen.call("POST", "/session", key=None, json=wrong)).status == 401
    right = {"name": "ada", "password": GIVEN["ownpassword"]}
    entered = await seen.call("POST", "/session", once=True, key=None, json=right)
    cookie = SimpleCookie(entered.headers["set-cookie"])["ebbtide_session"].value
    seen.shown |= {"session": cookie, "csrf": entered.json["csrf_token"]}
    headers = {"Cookie": f"ebbtide_session={cookie}", "X-CSRF-Token": seen.shown["csrf"]}
    change = {"current": GIVEN["ownpassword"], "new": GIVEN["newpassword"]}
    changed = await seen.call("PUT", "/user/password", once=True, key=None, headers=headers, json=change)
    assert changed.status == 200
    return headers


async def make_secrets(seen: Seen) -> None:
    """A key, a webhook and a secret setting."""
    made = await seen.call("POST", "/user/keys", once=True, json={"name": "second"})
    seen.shown["key"] = made.json["key"]
    hook = {"url": f"http://127.0.0.1:{closed_port()}/hook"}
    seen.shown["webhook"] = (await seen.call("PUT", "/v1/batch_webhook", once=True, json=hook)).json["secret"]
    url = f"https://127.0.0.1:{closed_port()}/{GIVEN['alerturl']}"
    assert (await seen.call("PATCH", "/admin/config", json={"ALERT_WEBHOOK_URL": url})).status == 200


async def fail_in_every_way(seen: Seen) -> None:
    """Upstreams that tell their key, alone, streamed and in a batch; keys and bodies that are wrong."""
    batch = await seen.gateway.create([request_line(name, text=name) for name in ("bad", "forbidden")])
    ended = await seen.gateway.ended(batch)
    assert ended["request_counts"]["failed"] == 2
    for path in (f"{batch}", f"{batch}/results", f"{batch}/output.jsonl"):
        assert (await seen.call("GET", f"/v1/batches/{path}")).status == 200
    for name in FAILURES:
        body = request_line(name, text=f"{name} {GIVEN['prompt']}")["body"]
        for stream in (False, True):
            await seen.call("POST", "/v1/chat/completions", key=seen.shown["key"], json=body | {"stream": stream})
    asked = {"key": seen.shown["key"]}  # Gemini's way to present one
    assert (await seen.call("GET", "/v1beta/models", key=None, params=asked)).status == 200
    for key in (GIVEN["badkey"], f"ebb-{GIVEN['badkey']:x<43}"):
        assert (await seen.call("GET", "/v1/models", key=key)).status == 401
    await seen.call("POST", "/session", key=None, data=GIVEN["body"])


async def walk(seen: Seen, headers: dict[str, str]) -> None:
    """Every GET, and every change with a body that is none."""
    for one in ENDPOINTS:
        path = one.path.replace("{", "").replace(":path}", "").replace("}", "")
        if one.method == "GET" and not path.endswith("/events"):
            await seen.call("GET", path, params={"token": GIVEN["query"]})
        elif isinstance(one, Closed) and one.method != "GET":
            broken = b'{"' + GIVEN["body"].encode()
            await seen.call(one.method, path, key=None, headers=headers, data=broken)


async def dump(database: Database) -> dict[str, str]:
    """Every table as text."""
    async with database.connection() as conn:
        tables = await conn.fetch(
            "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition"
        )
        text = {}
        for (name,) in tables:
            rows = await conn.fetch(f"select to_jsonb(t)::text from {name} t")
            text[name] = "\n".join(row[0] for row in rows)
        return text


async def test_no_secret_stands_in_logs_answers_metrics_or_database(
    database_url: str, listen_url: str, tmp_path: Path
) -> None:
    async with FakeUpstream() as upstream, await Database.connect(database_url) as database:
        upstream.decide = telling
        model = chat_model(upstream.url)
        model["routes"][0]["api_keys"] = ["${FIRST_KEY}", "${SECOND_KEY}"]
        models = models_file(tmp_path, model)
        environ = {
            "FIRST_KEY": GIVEN["firstkey"],
            "SECOND_KEY": GIVEN["secondkey"],
            "EBBTIDE_DATABASE_URL": with_password(database_url),
            "EBBTIDE_DATABASE_LISTEN_URL": with_password(listen_url),
            "EBBTIDE_METRICS_TOKEN": GIVEN["metricstoken"],
            "EBBTIDE_OIDC_ISSUER": f"http://127.0.0.1:{closed_port()}",
            "EBBTIDE_OIDC_CLIENT_ID": "ebbtide",
            "EBBTIDE_OIDC_CLIENT_SECRET": GIVEN["oidcsecret"],
            "EBBTIDE_LOG_LEVEL": "debug",
            "EBBTIDE_LOG_FORMAT": "json",
            "ROUTING_BREAKER_FAILURES": "0",
            "BATCH_WEBHOOK_ALLOW_PRIVATE_TARGETS": "on",
        }
        async with Processes(tmp_path, models, **environ) as processes:
            gateway = await processes.start()
            seen = Seen(gateway, shown={"admin": gateway.key})
            headers = await sign_in(seen, database)
            await make_secrets(seen)
            await fail_in_every_way(seen)
            await walk(seen, headers)
            assert (await seen.call("GET", "/metrics", key=GIVEN["metricstoken"])).status == 200
            model["routes"][0] |= {"api_keys": GIVEN["literalkey"], "api_key": [GIVEN["literalkey"]]}
            models_file(tmp_path, model)
            await holds(lambda: "api_key" in gateway.log)  # it says what is wrong with the file
            await seen.call("GET", "/health/ready", key=None)

            async def is_logged() -> bool:
                answer = await seen.call("GET", "/admin/recent-requests", params={"limit": "100"})
                return len(answer.json["data"]) >= 2 * len(FAILURES)

            await until(is_logged)
            assert await gateway.stop() == 0
            log = "\n".join(line for line in gateway.log.splitlines() if "shown only now" not in line)
        told = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "ebbtide", "doctor", "--models", str(models), "--port", "0"],
            env={
                **os.environ,
                **environ,
                "EBBTIDE_DATABASE_URL": f"postgresql://e:{GIVEN['dbpassword']}@127.0.0.1:1/e",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        tables = await dump(database)
    assert len([one for one in upstream.requests if GIVEN["firstkey"] in one.headers["authorization"]]) > 1
    for name, secret in (GIVEN | seen.shown).items():
        assert secret not in log, name
        assert secret not in told.stdout + told.stderr, name
        assert {table for table, text in tables.items() if secret in text} == KEPT.get(name, set()), name
    assert seen.leaks({name: secret for name, secret in (GIVEN | seen.shown).items() if name not in SAID}) == []
