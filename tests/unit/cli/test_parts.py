"""The parts of the command line that need no gateway: parsing, pace, exit statuses, whole files."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.cli import exits
from ebbtide.cli.gateway import base_url, said
from ebbtide.cli.keys import parse_span
from ebbtide.cli.progress import Pace, display, span
from ebbtide.cli.submitting import endpoint_of, read_metadata
from ebbtide.cli.watching import exit_status, summary, whole_file
from ebbtide.cli.wire import Batch, Counts, Failure, Problem, Problems
from ebbtide.errors import SetupError


def batch(status: str, completed: int = 0, failed: int = 0, cancelled: int = 0, total: int | None = None) -> Batch:
    done = completed + failed + cancelled
    counts = Counts(total=done if total is None else total, completed=completed, failed=failed, cancelled=cancelled)
    return Batch(id="batch_1", status=status, request_counts=counts)


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (batch("completed", completed=2), exits.OK),
        (batch("completed", completed=1, failed=1), exits.SOME_FAILED),
        (batch("completed", failed=2), exits.SOME_FAILED),
        (batch("completed", completed=1, total=2), exits.SOME_FAILED),
        (batch("failed", failed=2), exits.BATCH_ENDED),
        (batch("expired", completed=2), exits.BATCH_ENDED),
        (batch("cancelled", completed=1, cancelled=1), exits.BATCH_ENDED),
    ],
)
def test_exit_status_is_honest(ended: Batch, status: int) -> None:
    assert exit_status(ended) == status


def test_statuses_are_distinct_and_explained() -> None:
    statuses = [status for status, _ in exits.MEANINGS]
    assert len(set(statuses)) == len(statuses) == 7


def test_summary_names_every_problem() -> None:
    ended = Batch(
        id="batch_1",
        status="failed",
        errors=Problems([Problem("not JSON", "invalid_json_line", 3), Problem("no requests", "empty_file")]),
        error=Failure("The file is not valid."),
    )
    assert list(summary(ended)) == [
        "line 3: not JSON (invalid_json_line)",
        "no requests (empty_file)",
        "The file is not valid.",
        "batch_1 failed: nothing ran. Correct the file and submit it again.",
    ]


def test_summary_counts_outcomes() -> None:
    line, advice = summary(batch("cancelled", completed=5, failed=2, cancelled=3))
    assert "`ebbtide batch results batch_1`" in advice
    assert line == "batch_1 cancelled: 5 of 10 succeeded, 2 failed, 3 cancelled."


def test_pace_is_that_of_the_last_minute() -> None:
    pace = Pace()
    assert pace.seconds_left(100) is None
    pace.seen(0, 40)  # what was done before the watch began is no pace
    assert pace.seconds_left(100) is None
    pace.seen(10, 50)
    assert pace.seconds_left(100) == pytest.approx(50)
    for second in range(20, 200, 10):
        pace.seen(second, 50)
    assert pace.seconds_left(100) is None
    pace.seen(200, 100)
    assert pace.seconds_left(100) == 0
    assert pace.seconds_left(0) is None  # a file that is still being checked


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (-1, "0 s")]
)
def test_span(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    seconds = 0.0
    out = io.StringIO()
    with display(out, lambda: seconds) as shown:
        for done in range(0, 101, 5):
            shown.show(batch("in_progress", completed=done, total=100))
            seconds += 1
        shown.show(batch("completed", completed=99, failed=1))
    assert out.getvalue().splitlines() == [
        "batch_1 in_progress: 0 of 100 done",
        "batch_1 in_progress: 50 of 100 done, about 10 s left",
        "batch_1 in_progress: 100 of 100 done, about 0 s left",
        "batch_1 completed: 100 of 100 done, 1 failed",
    ]


def test_a_terminal_gets_a_bar() -> None:
    out = Terminal()
    with display(out, lambda: 0.0) as shown:
        shown.show(batch("in_progress", completed=40, failed=2, total=100))
        shown.say("gateway away")
        shown.show(batch("completed", completed=98, failed=2))
    assert "gateway away" in out.getvalue()
    assert "100/100, 2 failed" in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", " http://h:1/v1/ "])
def test_base_url(url: str) -> None:
    assert base_url(url) == "http://h:1"


@pytest.mark.parametrize("url", ["h:1", "ftp://h", "http://", "http://[", "http://h/?key=1"])
def test_a_url_that_cannot_be_used(url: str) -> None:
    with pytest.raises(SetupError, match="--url takes"):
        base_url(url)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no such batch", "code": 404}}', "no such batch"),
        (b'{"error": "nope"}', "nope"),
        (b"<html>502</html>", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_what_an_error_answer_says(body: bytes, message: str | None) -> None:
    assert said(body) == message


def test_the_endpoint_is_the_first_lines_url() -> None:
    file = io.BytesIO(b'\xef\xbb\xbf\n  \n{"custom_id": "a", "url": "/v1/embeddings"}\n{}')
    assert endpoint_of(file, None) == "/v1/embeddings"
    assert file.tell() == 0
    assert endpoint_of(file, "/v1/chat/completions") == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no requests"),
        (b"\n \n", "no requests"),
        (b"{", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{}", "--endpoint"),
    ],
)
def test_a_first_line_that_does_not_say(content: bytes, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        endpoint_of(io.BytesIO(content), None)


def test_metadata() -> None:
    assert read_metadata(None) == {}
    assert read_metadata(["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}
    with pytest.raises(SetupError, match="'lonely'"):
        read_metadata(["lonely"])


def test_lifetimes() -> None:
    assert parse_span("90d") == timedelta(days=90)
    assert parse_span("30M") == timedelta(minutes=30)
    for text in ("", "d", "90", "-1d", "1.5h", "1y"):
        with pytest.raises(SetupError, match="--expires-in"):
            parse_span(text)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"old")
    with contextlib.suppress(RuntimeError), whole_file(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with whole_file(link) as file:
        file.write(b"x")
    assert link.is_symlink()
    assert target.read_bytes() == b"x"


def test_a_device_is_written_and_stays_one() -> None:
    with whole_file(Path(os.devnull)) as file:
        file.write(b"x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="Cannot write"), whole_file(tmp_path / "none" / "file"):
        pytest.fail("there is no such folder")
