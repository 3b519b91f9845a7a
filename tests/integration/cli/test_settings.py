"""`ebbtide settings` on a real database, and a running gateway process that takes its changes up."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
from typing import Any

import aiohttp
import pytest
from tests.gateway import until

from ebbtide.cli import exits
from ebbtide.cli.app import run
from ebbtide.records.audit import list_audit
from ebbtide.storage.pool import Database

Capture = pytest.CaptureFixture[str]
CAP, URL = "BATCH_MODEL_CONCURRENCY", "ALERT_WEBHOOK_URL"


@pytest.fixture(autouse=True)
def _environment(database_url: str, listen_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBTIDE_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBTIDE_DATABASE_LISTEN_URL", listen_url)
    monkeypatch.setenv("LOGNAME", "ada")


async def ebbtide(*arguments: str) -> int:
    """Run a command in a thread, for it has an event loop of its own."""
    return await asyncio.to_thread(run, ("settings", *arguments))


async def told(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """What a command with --json says of one setting."""
    assert await ebbtide(*arguments, "--json") == exits.OK
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


async def test_from_set_to_reset(database: Database, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ebbtide("get", CAP) == exits.OK
    assert capsys.readouterr().out == "64\n"
    monkeypatch.setenv(CAP, "12")
    view = await told(capsys, "get", CAP)
    assert (view["value"], view["source"], view["default"], view["updated_by"]) == (12, "environment", 64, None)
    view = await told(capsys, "set", CAP, "7")
    assert (view["value"], view["source"], view["updated_by"]) == (7, "stored", "cli:ada")
    view = await told(capsys, "reset", CAP)
    assert (view["value"], view["source"]) == (12, "environment")
    assert await ebbtide("reset", CAP) == exits.OK
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("12\n", f"Nothing was stored for {CAP}.\n")
    assert await ebbtide("set", "BATCH_ENABLED", "FALSE") == exits.OK
    assert capsys.readouterr().out == "off\n"
    noted = [(entry.actor, entry.action, entry.object, entry.detail) for entry in (await list_audit(database)).entries]
    assert noted == [
        ("cli:ada", "setting.set", "BATCH_ENABLED", {"old": None, "new": "FALSE"}),
        ("cli:ada", "setting.reset", CAP, {"old": "7", "new": None}),
        ("cli:ada", "setting.set", CAP, {"old": None, "new": "7"}),
    ]


async def test_the_list_tells_sources_and_what_is_ignored(
    database: Database, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_MAX_REQUESTS", "9")
    async with database.transaction() as conn:
        await conn.execute(
            "insert into settings values ('BATCH_LATER', 'x', now(), 'cli:x'), ($1, 'x', now(), 'y')", CAP
        )
    assert await ebbtide("list") == exits.OK
    captured = capsys.readouterr()
    lines = {line.split()[0]: line.split()[1:4] for line in captured.out.splitlines()}
    assert lines["BATCH_MAX_REQUESTS"] == ["9", "environment", "requests"]
    assert lines["BATCH_ENABLED"][:2] == ["on", "default"]
    assert lines[CAP][:2] == ["64", "default"]
    assert f"{CAP}='x' is not accepted" in captured.err
    assert "BATCH_LATER is stored and is not a setting" in captured.err
    assert await ebbtide("reset", "BATCH_LATER") == exits.OK
    assert await ebbtide("list", "--json") == exits.OK
    captured = capsys.readouterr()
    assert "BATCH_LATER" not in captured.err
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert {row["source"] for row in rows} == {"environment", "default"}


async def test_refusals_are_one_line_and_change_nothing(database: Database, capsys: Capture) -> None:
    for arguments, words in (
        (("set", CAP, "-1"), "from 0 to 100,000"),
        (("set", "BATCH_SPEED", "1"), "There is no setting 'BATCH_SPEED'"),
        (("get", "BATCH_SPEED"), "There is no setting 'BATCH_SPEED'"),
        (("reset", "BATCH_SPEED"), "There is no setting 'BATCH_SPEED'"),
    ):
        assert await ebbtide(*arguments) == exits.REFUSED, arguments
        said = capsys.readouterr().err
        assert words in said
        assert said.startswith("ebbtide: ")
        assert said.count("\n") == 1
    assert (await list_audit(database)).entries == []


async def test_a_secret_comes_from_standard_input_and_is_not_shown(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("https://hooks.example.org/s3cret\n"))
    assert await ebbtide("set", URL) == exits.OK
    assert capsys.readouterr().out == "(secret, set)\n"
    view = await told(capsys, "get", URL)
    assert (view["value"], view["is_set"], view["source"]) == (None, True, "stored")
    assert await ebbtide("list") == exits.OK
    assert "s3cret" not in capsys.readouterr().out
    assert await ebbtide("set", URL, "") == exits.OK
    assert capsys.readouterr().out == "(secret, not set)\n"


@pytest.mark.processes
async def test_running_processes_take_a_change_up(database_url: str, listen_url: str, capfd: Capture) -> None:
    """Two real processes, one of which cannot listen, and a change by a third: this one."""
    urls = []
    started = []
    for listen in (listen_url, "postgresql://nobody@127.0.0.1:1/nothing"):
        environ = {**os.environ, "EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ebbtide", "serve", "--role", "api", "--port", "0"),
            env=environ,
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(process)
    try:
        for process in started:
            assert process.stdout is not None
            urls += re.findall(r"http://\S+", (await process.stdout.readline()).decode())
        async with aiohttp.ClientSession() as session:

            async def statuses() -> set[int]:
                found = set()
                for url in urls:
                    async with session.get(f"{url}/v1/batches") as answer:
                        found.add(answer.status)
                return found

            async def all_answer(status: int) -> bool:
                return await statuses() == {status}

            assert await statuses() == {401}
            assert await ebbtide("set", "BATCH_ENABLED", "off") == exits.OK
            await until(lambda: all_answer(404), within=10)
            assert await ebbtide("reset", "BATCH_ENABLED") == exits.OK
            await until(lambda: all_answer(401), within=10)
    finally:
        for process in started:
            process.terminate()
        assert [await process.wait() for process in started] == [0, 0]
