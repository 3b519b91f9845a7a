"""Ranges, tags and file names of downloads."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from starlette.datastructures import Headers

from ebbtide.api.ranges import Slice, Unsatisfiable, content_disposition, is_unchanged, read_range

ETAG = '"abc"'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", Slice(0, 1)),
        ("bytes=2-5", Slice(2, 6)),
        ("bytes=5-", Slice(5, 10)),
        ("bytes=5-999", Slice(5, 10)),
        ("bytes=-3", Slice(7, 10)),
        ("bytes=-999", Slice(0, 10)),
        ("BYTES = 2 - 5", Slice(2, 6)),
    ],
)
def test_one_range_is_read(header: str, expected: Slice) -> None:
    assert read_range(Headers({"range": header}), ETAG, 10) == expected


@pytest.mark.parametrize(
    "header",
    ["", "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b", "bytes=\u0661-", "bytes=1"],
)
def test_what_is_not_one_range_gets_the_whole(header: str) -> None:
    assert read_range(Headers(raw=[(b"range", header.encode())]), ETAG, 10) is None


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=99-100", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_a_range_outside_is_unsatisfiable(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        read_range(Headers({"range": header}), ETAG, size)


@pytest.mark.parametrize(
    ("condition", "partial"),
    [(ETAG, True), ('"other"', False), ('W/"abc"', False), ("Sat, 01 Jan 2000 00:00:00 GMT", False)],
)
def test_if_range_asks_for_the_whole_of_changed_content(condition: str, partial: bool) -> None:
    found = read_range(Headers({"range": "bytes=1-2", "if-range": condition}), ETAG, 10)
    assert (found is not None) is partial


@pytest.mark.parametrize(
    ("asked", "unchanged"),
    [(None, False), (ETAG, True), ('W/"abc"', True), ('"x", "abc"', True), ("*", True), ('"x"', False), ("abc", False)],
)
def test_if_none_match(asked: str | None, unchanged: bool) -> None:
    headers = Headers({} if asked is None else {"if-none-match": asked})
    assert is_unchanged(headers, ETAG) is unchanged


@pytest.mark.parametrize(
    "name", ["a.jsonl", "r\u00e9sum\u00e9 \U0001f600.jsonl", 'a"b\\c.jsonl', "a\r\nb: c", "../x", "a;b=c"]
)
def test_any_file_name_travels_in_one_safe_header(name: str) -> None:
    header = content_disposition(name)
    assert header.isascii()
    assert header.isprintable()
    kind, plain, *extended = header.split("; ")
    assert kind == "attachment"
    assert plain.removeprefix("filename=").strip('"').count('"') == 0
    told = unquote(extended[0].removeprefix("filename*=UTF-8''")) if extended else plain[len('filename="') : -1]
    assert told == name
