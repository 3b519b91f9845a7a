"""`ebbtide batch …` against a small HTTP server that speaks the batch API: what is sent, written and said."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.fake_gateway import KEY, LINES, RESULTS, FakeGateway, batch

from ebbtide.cli import exits, watching
from ebbtide.cli.app import run


@pytest.fixture
async def gateway(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeGateway]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fake = FakeGateway(port)
    await fake.up()
    monkeypatch.setenv("EBBTIDE_URL", fake.url)
    monkeypatch.setenv("EBBTIDE_API_KEY", KEY)
    yield fake
    await fake.down()


@pytest.fixture
def requests(tmp_path: Path) -> str:
    path = tmp_path / "requests.jsonl"
    path.write_text(LINES)
    return str(path)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def ebbtide(*arguments: str) -> int:
    """Run a command in a thread, for it has an event loop of its own."""
    return await asyncio.to_thread(run, arguments)


async def test_submit_prints_the_id_and_no_more(
    gateway: FakeGateway, requests: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = await ebbtide(
        "batch", "submit", requests, "--metadata", "run=7", "--metadata", "by=me", "--idempotency-key", "once"
    )
    assert status == exits.OK
    assert capsys.readouterr().out == "batch_1\n"
    assert gateway.uploaded == {"purpose": "batch", "name": "requests.jsonl", "content": LINES}
    assert gateway.created == {
        "input_file_id": "file-1",
        "endpoint": "/v1/embeddings",
        "completion_window": "24h",
        "metadata": {"run": "7", "by": "me"},
    }
    assert gateway.headers["Idempotency-Key"] == "once"


async def test_submit_with_a_key_uses_the_file_that_is_there(
    gateway: FakeGateway, requests: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LINES.replace('"a"', '"z"')
    gateway.stored = {"file-0": "x", "file-z": other, "file-2": LINES, "file-3": LINES, "file-4": LINES}
    gateway.conflicting = {"file-2"}
    assert await ebbtide("batch", "submit", requests, "--idempotency-key", "once") == exits.OK
    assert capsys.readouterr().out == "batch_1\n"
    assert (gateway.uploads, gateway.created["input_file_id"]) == (0, "file-3")
    gateway.conflicting = {"file-2", "file-3", "file-4"}
    assert await ebbtide("batch", "submit", requests, "--idempotency-key", "once") == exits.REFUSED
    assert "different request: another file, endpoint or metadata" in capsys.readouterr().err
    assert (gateway.uploads, gateway.deleted) == (0, [])
    gateway.stored, gateway.conflicting = {}, {"file-1"}
    assert await ebbtide("batch", "submit", requests, "--idempotency-key", "once") == exits.REFUSED
    assert "another file, endpoint or metadata, or its file has been deleted since." in capsys.readouterr().err
    assert (gateway.uploads, gateway.deleted) == (1, ["file-1"])


@pytest.mark.parametrize("command", ["watch", "retry", "results", "cancel", "delete"])
async def test_an_id_names_nothing_but_a_batch(gateway: FakeGateway, command: str) -> None:
    for name in ("batch_1?x", "batch_1#", "%2e%2e", "..%2ffiles", "b c", "\udcff"):
        assert await ebbtide("batch", command, name) in (exits.OK, exits.REFUSED)
        assert any(path.startswith("/v1/batches/") for path in gateway.paths)
        sent = "/v1/batches/" + quote(name.encode(errors="surrogateescape"), safe="")
        assert all(path.partition("?")[0].startswith((sent, "/v1/batches/batch_1")) for path in gateway.paths)
        gateway.paths.clear()
    for name in ("", ".", "..", "../files/file-1", "batch_1/../../files/file-1", "/"):
        assert await ebbtide("batch", command, name) == exits.USAGE
    assert gateway.paths == []


@pytest.mark.parametrize("command", [["submit"], ["submit", "--wait"], ["retry"], ["watch"], ["results"]])
async def test_where_results_cannot_go_is_said_first(
    gateway: FakeGateway, requests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    named = requests if command[0] == "submit" else "batch_1"
    for output in (tmp_path / "nope" / "x", tmp_path, Path(requests) / "x", tmp_path / ("x" * 300)):
        assert await ebbtide("batch", *command, named, "-o", str(output)) == exits.USAGE
        assert f"Cannot write {output}: " in capsys.readouterr().err
    assert gateway.paths == []
    assert names(tmp_path) == ["requests.jsonl"]


async def test_a_create_whose_answer_was_lost_is_sent_again_with_the_same_key(
    gateway: FakeGateway, requests: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.lost_creates = 2
    assert await ebbtide("batch", "submit", requests) == exits.OK
    assert capsys.readouterr().out == "batch_1\n"
    assert len(gateway.keys) == 3
    assert len(set(gateway.keys)) == 1
    assert await ebbtide("batch", "submit", requests) == exits.OK
    assert len(set(gateway.keys)) == 2  # each submission has a key of its own


async def test_a_create_that_is_refused_for_its_limits_is_not_waited_for(gateway: FakeGateway, requests: str) -> None:
    gateway.refusal = ("/v1/batches", 429, "You have 10 unfinished batches; 10 are allowed")
    assert await ebbtide("batch", "submit", requests) == exits.REFUSED
    assert gateway.deleted == ["file-1"]


async def test_retry_prints_the_new_batch_and_waits_for_it(
    gateway: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.lost_creates = 1
    output = tmp_path / "results.jsonl"
    assert await ebbtide("batch", "retry", "batch_0", "-o", str(output), "--idempotency-key", "again") == exits.OK
    assert gateway.keys == ["again", "again"]
    assert capsys.readouterr().out == "batch_1\n"
    assert output.read_bytes() == RESULTS


async def test_watch_shows_what_the_stream_of_progress_tells(
    gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [
        batch("validating", blocked_reason="daily_quota"),
        batch("in_progress", completed=1, finishes_in_time=False),
        batch("finalizing", completed=2),
    ]
    gateway.events = ["retry: 2000\n\n", ": still here\n\n"]
    gateway.events += [f"event: batch\nid: {n}\ndata: {json.dumps(each)}\n\n" for n, each in enumerate(told)]
    gateway.events += ['event: done\ndata: {"id": "batch_1", "status": "completed"}\n\n']
    gateway.course = [batch("validating"), batch("completed", completed=2)]
    assert await ebbtide("batch", "watch", "batch_1") == exits.OK
    shown = capsys.readouterr().err
    assert "in_progress: 1 of 2 done" in shown
    assert "finalizing: 2 of 2 done" in shown
    assert "batch_1 completed: 2 of 2 succeeded." in shown


async def test_watch_tells_what_waits_for_another_try(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watching, "_STUCK_SECONDS", 0.01)
    gateway.course = [batch("in_progress", completed=1)]
    assert await ebbtide("batch", "watch", "batch_1") == exits.OK
    shown = capsys.readouterr().err
    assert "in_progress: 1 of 2 done, 1 waits for another try, the last one ended in rate_limited\n" in shown
    assert set(gateway.cursors) == {"a"}, "what has ended is not read again"


async def test_watch_tells_in_words_why_a_batch_waits(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    gateway.course = [batch("in_progress", blocked_reason="no_route_up"), batch("completed", completed=2)]
    assert await ebbtide("batch", "watch", "batch_1") == exits.OK
    assert "waits: no_route_up (no server of the model is up)" in capsys.readouterr().err


async def test_submit_reads_standard_input(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    assert await ebbtide("batch", "submit", "-", "--endpoint", "/v1/chat/completions") == exits.OK
    assert gateway.uploaded["content"] == LINES
    assert gateway.created["endpoint"] == "/v1/chat/completions"


async def test_submit_waits_and_writes_the_results(
    gateway: FakeGateway, requests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.course = [batch("validating"), batch("in_progress", completed=1), batch("completed", completed=2)]
    output = tmp_path / "results.jsonl"
    assert await ebbtide("batch", "submit", requests, "--wait", "-o", str(output)) == exits.OK
    assert output.read_bytes() == RESULTS
    captured = capsys.readouterr()
    assert captured.out == "batch_1\n"
    assert "in_progress: 1 of 2 done" in captured.err
    assert "batch_1 completed: 2 of 2 succeeded." in captured.err


async def test_results_to_standard_output_stand_alone(
    gateway: FakeGateway, requests: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert await ebbtide("batch", "submit", requests, "-o", "-") == exits.OK
    assert capsysbinary.readouterr().out == RESULTS
    assert await ebbtide("batch", "results", "batch_1") == exits.OK
    assert capsysbinary.readouterr().out == RESULTS


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (batch("completed", completed=1, failed=1), exits.SOME_FAILED),
        (batch("cancelled", completed=1), exits.BATCH_ENDED),
        (batch("expired", completed=1, failed=1), exits.BATCH_ENDED),
        (
            batch("failed", failed=2, error={"code": "owner_unauthorized", "message": "The key was revoked."}),
            exits.BATCH_ENDED,
        ),
    ],
)
async def test_the_status_tells_how_it_ended(
    gateway: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str], ended: dict[str, Any], status: int
) -> None:
    gateway.course = [ended]
    output = tmp_path / "results.jsonl"
    assert await ebbtide("batch", "watch", "batch_1", "-o", str(output)) == status
    assert ("`ebbtide batch results batch_1`" in capsys.readouterr().err) == bool(ended["request_counts"]["failed"])
    assert output.read_bytes() == RESULTS


async def test_bad_lines_are_told_one_by_one(
    gateway: FakeGateway, requests: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = [{"code": "invalid_json_line", "line": 1, "message": "not JSON", "param": None}]
    problems += [{"code": "duplicate_custom_id", "line": 2, "message": "repeated", "param": "custom_id"}]
    gateway.course = [batch("failed", total=0, errors={"object": "list", "data": problems})]
    output = tmp_path / "results.jsonl"
    assert await ebbtide("batch", "submit", requests, "-o", str(output)) == exits.BATCH_ENDED
    said = capsys.readouterr().err
    assert "batch_1 failed: nothing ran" in said
    assert "line 1: not JSON (invalid_json_line)\nline 2: repeated (duplicate_custom_id)\n" in said
    assert not output.exists()


async def test_a_restart_does_not_end_the_wait(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    gateway.course = [batch("in_progress")]
    waiting = asyncio.create_task(ebbtide("batch", "watch", "batch_1"))
    await gateway.looked.wait()
    await gateway.down()
    async with hanging_up(gateway.port) as called:
        await called.wait()
    gateway.course = [batch("completed", completed=2)]
    await gateway.up()
    assert await waiting == exits.OK
    assert capsys.readouterr().err.count("Trying again.") == 1


@contextlib.asynccontextmanager
async def hanging_up(port: int) -> AsyncIterator[asyncio.Event]:
    """A server that closes every connection without a word; the event is set at the third, past any silent retry."""
    called, calls = asyncio.Event(), itertools.count(1)

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        if next(calls) == 3:
            called.set()

    async with await asyncio.start_server(hang_up, "127.0.0.1", port, reuse_address=True):
        yield called


async def test_a_passing_refusal_does_not_end_the_wait(
    gateway: FakeGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.refusal = ("/v1/batches/batch_1", 503, "The database cannot be reached.")
    waiting = asyncio.create_task(ebbtide("batch", "watch", "batch_1"))
    await gateway.refused.wait()
    gateway.refusal = None
    assert await waiting == exits.OK
    assert "The database cannot be reached. Trying again." in capsys.readouterr().err


async def test_broken_off_results_are_fetched_again(gateway: FakeGateway, tmp_path: Path) -> None:
    gateway.break_results = 1
    output = tmp_path / "results.jsonl"
    assert await ebbtide("batch", "results", "batch_1", "-o", str(output)) == exits.OK
    assert output.read_bytes() == RESULTS
    assert names(tmp_path) == ["results.jsonl"]


async def test_patience_ends(gateway: FakeGateway, requests: str, capsys: pytest.CaptureFixture[str]) -> None:
    await gateway.down()
    assert await ebbtide("batch", "submit", requests) == exits.UNREACHABLE
    assert f"No gateway at {gateway.url}: Connection refused. " in capsys.readouterr().err
    assert await ebbtide("batch", "watch", "batch_1", "--give-up-after", "0.3") == exits.UNREACHABLE


async def test_a_refusal_is_said_and_leaves_no_file_behind(
    gateway: FakeGateway, requests: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.refusal = ("/v1/batches", 429, "You have 10 unfinished batches.")
    assert await ebbtide("batch", "submit", requests) == exits.REFUSED
    assert capsys.readouterr().err == "ebbtide: You have 10 unfinished batches.\n"
    assert gateway.deleted == ["file-1"]


async def test_a_wrong_key_ends_at_once(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ebbtide("batch", "watch", "batch_1", "--key", "ebb-wrong") == exits.REFUSED
    assert "not valid" in capsys.readouterr().err


async def test_a_url_that_is_no_gateway(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ebbtide("batch", "watch", "batch_1", "--url", f"{gateway.url}/elsewhere") == exits.REFUSED
    assert "404" in capsys.readouterr().err


async def test_lists_go_on_over_pages(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    assert await ebbtide("batch", "list", "--json", "--limit", "0") == exits.OK
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"batch_{number}" for number in range(250)]
    assert await ebbtide("batch", "list", "--limit", "3") == exits.OK
    assert len(capsys.readouterr().out.splitlines()) == 4


async def test_cancel_delete_and_models(gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> None:
    gateway.course = [batch("cancelling")]
    assert await ebbtide("batch", "cancel", "batch_1") == exits.OK
    assert capsys.readouterr().err == "batch_1 is cancelling.\n"
    assert await ebbtide("batch", "delete", "batch_1") == exits.OK
    assert gateway.deleted == ["batch_1"]
    assert await ebbtide("models", "list") == exits.OK
    assert "small" in capsys.readouterr().out


@contextlib.asynccontextmanager
async def process(*arguments: str, **how: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """The real command in a process of its own, gone at the end."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ebbtide", *arguments, stderr=asyncio.subprocess.PIPE, **how
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@pytest.mark.processes
async def test_ctrl_c_leaves_the_batch_alone(gateway: FakeGateway) -> None:
    gateway.course = [batch("in_progress")]
    async with process("batch", "watch", "batch_1") as watching:
        await gateway.looked.wait()
        watching.send_signal(signal.SIGINT)
        _, said = await watching.communicate()
        assert watching.returncode == exits.INTERRUPTED
    assert b"The batch goes on." in said
    assert b"Traceback" not in said


@pytest.mark.processes
async def test_a_reader_that_goes_away_is_no_error(gateway: FakeGateway) -> None:
    gateway.results = RESULTS * 100_000
    reading, writing = os.pipe()
    async with process("batch", "results", "batch_1", stdout=writing) as results:
        os.close(writing)
        await asyncio.to_thread(os.read, reading, 10)
        os.close(reading)
        _, said = await results.communicate()
        assert results.returncode == exits.OK
    assert said == b""


async def test_a_request_spread_over_lines_is_told_to_be_on_one(
    gateway: FakeGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pretty.jsonl"
    path.write_text('{\n  "custom_id": "a",\n  "url": "/v1/embeddings",\n  "body": {}\n}\n')
    assert await ebbtide("batch", "submit", str(path)) == exits.USAGE
    assert "each request has to be on one line" in capsys.readouterr().err
    assert not gateway.uploaded
