"""`ebbtide accounts`, `keys`, `migrate` and `doctor` on a real database."""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from aiohttp import web
from tests.gateway import chat_model, models_file, start_gateway

from ebbtide import __version__
from ebbtide.accounts import setup
from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions, SignIn
from ebbtide.batches import workers_store
from ebbtide.batches.model import BATCH_SCHEMA_VERSION
from ebbtide.cli import exits
from ebbtide.cli.actor import actor
from ebbtide.cli.app import run
from ebbtide.clock import SystemClock
from ebbtide.errors import Unauthenticated
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.embedded import EmbeddedServer
from ebbtide.storage.migrate import SCHEMA_VERSION
from ebbtide.storage.pool import Database

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _environment(database_url: str, listen_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBTIDE_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBTIDE_DATABASE_LISTEN_URL", listen_url)
    for name in [name for name in os.environ if name.startswith("EBBTIDE_TEST_")]:
        monkeypatch.delenv(name)  # how the suite finds its server is nothing that a gateway knows


def is_there(path: Path) -> bool:
    return path.exists()


async def ebbtide(*arguments: str) -> int:
    """Run a command in a thread, for it has an event loop of its own."""
    return await asyncio.to_thread(run, arguments)


def rows(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def test_an_account_and_its_key_from_birth_to_end(database: Database, capsys: Capture) -> None:
    assert await ebbtide("accounts", "create", "ada", "--role", "internal") == exits.OK
    capsys.readouterr()
    assert await ebbtide("keys", "create", "ada", "--name", "laptop", "--expires-in", "90d") == exits.OK
    secret = capsys.readouterr().out.strip()
    principal = await Authenticator(database, SystemClock()).principal(secret)
    assert principal.role is Role.INTERNAL

    assert await ebbtide("keys", "list", "ada", "--json") == exits.OK
    [key] = rows(capsys)
    assert (key["prefix"], key["name"], key["state"], key["account"]) == (secret[:10], "laptop", "active", "ada")
    assert await ebbtide("keys", "revoke", key["id"]) == exits.OK
    with pytest.raises(Unauthenticated):
        await Authenticator(database, SystemClock()).principal(secret)
    capsys.readouterr()
    assert await ebbtide("keys", "list", "--json") == exits.OK
    assert [key["state"] for key in rows(capsys)] == ["revoked"]
    deeds = [("account.create", key["account_id"]), ("key.create", key["id"]), ("key.revoke", key["id"])]
    assert await audited(database) == deeds
    assert await ebbtide("keys", "create", "ada", "--expires-in", "0d") == exits.USAGE


async def audited(database: Database) -> list[tuple[str, str]]:
    """What commands did, and to what, oldest first."""
    async with database.connection() as conn:
        return [
            (row["action"], row["object"])
            for row in await conn.fetch("select action, object, actor from audit_log order by id")
            if row["actor"] == actor()
        ]


async def test_account_changes(database: Database, capsys: Capture) -> None:
    assert await ebbtide("accounts", "create", "bea", "--role", "internal") == exits.OK
    assert "may not" not in capsys.readouterr().err
    assert await ebbtide("accounts", "delete", "bea") == exits.OK
    assert await ebbtide("accounts", "create", "eve") == exits.OK
    assert "As free it may not run batches" in capsys.readouterr().err
    assert await ebbtide("accounts", "delete", "eve") == exits.OK
    capsys.readouterr()
    assert await ebbtide("accounts", "create", "ada", "--json") == exits.OK
    [made] = rows(capsys)
    assert (made["role"], made["state"]) == ("free", "active")
    for arguments, role, state in (
        (("set-role", "ada", "pro"), "pro", "active"),
        (("suspend", made["id"]), "pro", "suspended"),
        (("resume", "ada"), "pro", "active"),
        (("delete", "ada"), "pro", "deleted"),
    ):
        assert await ebbtide("accounts", *arguments, "--json") == exits.OK
        [changed] = rows(capsys)
        assert (changed["id"], changed["role"], changed["state"]) == (made["id"], role, state)
    done = [action for action, subject in await audited(database) if subject == made["id"]]
    assert done == ["account.create", "account.change", "account.change", "account.change", "account.delete"]
    assert await ebbtide("accounts", "list", "--json") == exits.OK
    assert rows(capsys) == []
    for _ in range(2):  # a deleted account by its id; asked again, it tells how far it is
        assert await ebbtide("accounts", "delete", made["id"], "--permanent", "--json") == exits.OK
        [removal] = rows(capsys)
        assert (removal["account_id"], removal["state"], removal["batches_left"]) == (made["id"], "purging", 0)
    assert await ebbtide("accounts", "delete", "nobody", "--permanent") == exits.REFUSED
    capsys.readouterr()
    assert await ebbtide("accounts", "purges", "--json") == exits.OK
    assert rows(capsys) == [removal]


async def test_passwords_sessions_and_the_setup_code(
    database: Database, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ebbtide("accounts", "setup-code") == exits.OK
    code = capsys.readouterr().out.strip()
    sessions = Sessions(database, SystemClock(), SettingsSource.from_environ({}), Passwords())
    claim = setup.Claim(code, "root", "a long password", "127.0.0.1")
    await setup.claim(database, sessions, claim, SystemClock().now())
    assert await ebbtide("accounts", "setup-code") == exits.REFUSED  # an account has a password now
    await ebbtide("accounts", "create", "ada")
    for password, status in (("short\n", exits.REFUSED), ("another password\n", exits.OK)):
        monkeypatch.setattr("sys.stdin", io.StringIO(password))
        assert await ebbtide("accounts", "set-password", "ada", "--stdin") == status
    secret = await sessions.sign_in(SignIn("ada", "another password", "127.0.0.1"))
    capsys.readouterr()
    assert await ebbtide("accounts", "sessions", "ada", "--json") == exits.OK
    assert [sorted(row) for row in rows(capsys)] == [["created_at", "expires_at", "used_at"]]
    assert await ebbtide("accounts", "end-sessions", "ada") == exits.OK
    with pytest.raises(Unauthenticated):
        await sessions.principal(secret)


async def test_tables_for_people(capsys: Capture) -> None:
    assert await ebbtide("accounts", "list") == exits.OK
    assert capsys.readouterr().err == "There are no accounts yet.\n"
    await ebbtide("accounts", "create", "a" * 200)
    table = capsys.readouterr().out
    assert "created at" in table.splitlines()[0]
    assert "a" * 200 in table  # whole in a pipe, however long


async def test_refusals_are_one_line(capsys: Capture) -> None:
    await ebbtide("accounts", "create", "ada")
    capsys.readouterr()
    for arguments, message in (
        (("accounts", "create", "ada"), "An account named 'ada' exists already"),
        (("accounts", "suspend", "bea"), "There is no account 'bea'"),
        (("keys", "create", "bea"), "There is no account 'bea'"),
        (("keys", "revoke", "key_1"), "There is no key 'key_1'"),
    ):
        assert await ebbtide(*arguments) == exits.REFUSED
        assert capsys.readouterr().err == f"ebbtide: {message}\n"


async def test_a_database_that_is_not_there(listen_url: str, capsys: Capture) -> None:
    # The direct way: a pooler tells a missing database as a server that is away.
    missing = urlunsplit(urlsplit(listen_url)._replace(path="/no_such_database"))
    assert await ebbtide("accounts", "list", "--database-url", missing) == exits.USAGE
    assert "database" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert await ebbtide("accounts", "list", "--database-url", f"postgresql://x@127.0.0.1:{port}/x") == exits.REFUSED
    assert "Traceback" not in capsys.readouterr().err


async def test_migrate_says_what_it_did(empty_database_url: str, capsys: Capture) -> None:
    assert await ebbtide("migrate", "--database-url", empty_database_url) == exits.OK
    first = capsys.readouterr().out
    assert "applied first" in first
    assert f"schema version {SCHEMA_VERSION}" in first
    assert await ebbtide("migrate", "--database-url", empty_database_url) == exits.OK
    assert capsys.readouterr().out == f"The database is at schema version {SCHEMA_VERSION}.\n"


@pytest.fixture
def port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


async def test_doctor_finds_nothing_bad(port: str, tmp_path: Path, capsys: Capture) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("models:\n  - id: small\n    routes:\n      - {id: a, kind: standin}\n")
    assert await ebbtide("doctor", "--port", port, "--models", str(models)) == exits.OK
    said = capsys.readouterr().out
    assert f"ok   schema: version {SCHEMA_VERSION}, the newest" in said
    assert f"ok   models file: {models} names 1 model\n" in said
    assert f"ok   http: 127.0.0.1 port {port} is free" in said
    assert {line.split()[0] for line in said.splitlines()} == {"ok"}


async def test_doctor_looks_at_upstreams(port: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def models(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Authorization"))
        return web.json_response({"data": [{"id": f"model-{number}"} for number in range(7)]})

    asked: list[str | None] = []

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        status = await ebbtide("doctor", "--port", port, "--upstream", f"{base}/v1", "--embedding-upstream", base)
        monkeypatch.setenv("GPU_KEY", "secret")
        for name in ("GPU_KEY", "NO_SUCH_KEY"):
            await ebbtide("doctor", "--port", port, "--upstream", f"{base}/v1", "--upstream-key-env", name)
    finally:
        await runner.cleanup()
    assert status == exits.REFUSED
    said = capsys.readouterr().out
    assert f"ok   upstream {base}/v1: lists model-0, model-1, model-2, model-3, model-4 and 2 more" in said
    assert f"bad  upstream {base}: /models answers 404" in said
    assert "Does the URL lack its /v1?" in said
    assert asked == [None, "Bearer secret"]
    assert "bad  upstream key: The variable that --upstream-key-env names is not set, or holds no key" in said
    assert "secret" not in said


async def test_doctor_names_what_batches_may_not_use(port: str, tmp_path: Path, capsys: Capture) -> None:
    upstream = ("--port", port, "--upstream", "http://ebbtide.invalid:1/v1")
    assert await ebbtide("doctor", *upstream) == exits.REFUSED
    assert "--self-hosted if the server is yours" in capsys.readouterr().out
    await ebbtide("doctor", *upstream, "--self-hosted")
    assert "batches may not" not in capsys.readouterr().out
    models = tmp_path / "models.yaml"
    models.write_text(
        "models:\n  - id: small\n    routes:\n      - {id: a, kind: vllm, base_url: 'http://ebbtide.invalid:1/v1'}\n"
    )
    await ebbtide("doctor", "--port", port, "--models", str(models))
    assert "warn model small: no route of it may serve batches" in capsys.readouterr().out


async def test_doctor_says_what_is_wrong(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("models: 5\n")
    monkeypatch.setenv("BATCH_ENABLED", "maybe")
    monkeypatch.setenv("BATCH_SPEED", "11")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status = await ebbtide("doctor", "--database-url", empty_database_url, "--models", str(models), "--port", port)
    assert status == exits.REFUSED
    said = capsys.readouterr().out
    assert "bad  settings: BATCH_ENABLED='maybe'" in said
    assert "warn settings: BATCH_SPEED is not a setting" in said
    assert "ok   schema: empty" in said
    assert "bad  models file:" in said
    assert f"bad  http: Cannot listen on 127.0.0.1 port {port}" in said


async def test_doctor_beside_a_running_gateway_is_content(database: Database, tmp_path: Path, capsys: Capture) -> None:
    async with start_gateway(os.environ["EBBTIDE_DATABASE_URL"], models_file(tmp_path, chat_model())) as gateway:
        port = gateway.url.rpartition(":")[2]
        assert await ebbtide("doctor", "--port", port) == exits.OK
    assert f"ok   http: a gateway of version {__version__} runs on 127.0.0.1 port {port}" in capsys.readouterr().out


async def test_doctor_knows_a_newer_schema(database: Database, port: str, capsys: Capture) -> None:
    async with database.transaction() as conn:
        await conn.execute("insert into schema_migrations values (9999, 'later', now(), $1)", SCHEMA_VERSION)
    assert await ebbtide("doctor", "--port", port) == exits.OK
    assert "warn schema: version 9999 was made by a newer release" in capsys.readouterr().out
    async with database.transaction() as conn:
        await conn.execute("update schema_migrations set oldest_build = 9999 where number = 9999")
    assert await ebbtide("doctor", "--port", port) == exits.REFUSED
    assert "bad  schema: The database has schema version 9999, and this build knows only" in capsys.readouterr().out


async def test_doctor_lists_the_workers_that_live(database: Database, port: str, capsys: Capture) -> None:
    assert await ebbtide("doctor", "--port", port) == exits.OK
    assert "ok   worker: none runs at the moment" in capsys.readouterr().out
    async with database.transaction() as conn:
        await workers_store.register_worker(conn, "one", 11, "7.0", 60)
        await workers_store.register_worker(conn, "two", 12, "7.0", 60)
        await workers_store.register_worker(conn, "lost", 13, "6.0", -1)
        await workers_store.end_worker(conn, await workers_store.register_worker(conn, "gone", 14, "6.0", 60))
    assert await ebbtide("doctor", "--port", port) == exits.OK
    said = capsys.readouterr().out
    runs = f"runs batches up to schema version {BATCH_SCHEMA_VERSION}"
    assert f"ok   worker: one pid 11: version 7.0, {runs}\nok   worker: two pid 12: version 7.0, {runs}\n" in said
    assert said.count("worker:") == 2
    assert "several versions" not in said
    async with database.transaction() as conn:
        await workers_store.register_worker(conn, "old", 15, "6.0", 60)
    assert await ebbtide("doctor", "--port", port) == exits.OK
    assert "warn workers: they are of several versions" in capsys.readouterr().out


async def test_doctor_finds_stored_settings_without_effect(database: Database, port: str, capsys: Capture) -> None:
    async with database.transaction() as conn:
        await conn.execute(
            "insert into settings values ('BATCH_LATER', 'x', now(), 'a'), ('BATCH_ENABLED', 'x', now(), 'a')"
        )
    assert await ebbtide("doctor", "--port", port) == exits.OK
    said = capsys.readouterr().out
    assert "warn stored settings: BATCH_LATER is not a setting of this build; it has no effect" in said
    assert "warn stored settings: BATCH_ENABLED='x' is not accepted" in said


async def test_doctor_and_commands_on_the_embedded_server(
    data_dir: Path, port: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("EBBTIDE_DATABASE_URL")
    monkeypatch.delenv("EBBTIDE_DATABASE_LISTEN_URL")
    monkeypatch.setenv("EBBTIDE_DATA_DIR", str(data_dir))
    assert await ebbtide("doctor", "--port", port) == exits.OK
    assert "ok   database: none yet; the first start makes it" in capsys.readouterr().out
    assert await ebbtide("accounts", "create", "ada") == exits.USAGE
    said = capsys.readouterr().err
    assert f"There is no database in {data_dir} yet" in said
    assert all(name in said for name in ("--data-dir", "EBBTIDE_DATA_DIR", "EBBTIDE_DATABASE_URL", "ebbtide migrate"))
    assert not is_there(data_dir)
    async with EmbeddedServer(data_dir, fsync=False):
        assert await ebbtide("migrate") == exits.OK
        assert f"{data_dir} (embedded PostgreSQL)" in capsys.readouterr().err
        assert await ebbtide("accounts", "create", "ada") == exits.OK
        assert await ebbtide("doctor", "--port", port) == exits.OK
    assert "ok   database: PostgreSQL 18" in capsys.readouterr().out
