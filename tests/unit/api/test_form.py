"""Uploads as multipart forms: any order of parts, any cut of the stream, and only one whole form with one file."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pytest
from starlette.requests import Request
from starlette.types import Message

from ebbtide.api.form import ENVELOPE_BYTES, Form, read_form
from ebbtide.errors import InvalidRequest

PURPOSE = b'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch'
FILE = (
    b'Content-Disposition: form-data; name="file"; filename="in.jsonl"\r\nContent-Type: text/plain\r\n\r\n'
    b"line\r\n--b-\n"
)


def body(*parts: bytes) -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + b"--b--\r\n"


def request(raw: bytes, step: int = 1 << 20, kind: str = "multipart/form-data; boundary=b") -> Request:
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]

    async def receive() -> Message:
        piece = pieces.pop(0) if pieces else b""
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    return Request({"type": "http", "headers": [(b"content-type", kind.encode())]}, receive)


async def read(raw: bytes, step: int = 1 << 20, kind: str = "multipart/form-data; boundary=b") -> tuple[Form, bytes]:
    taken = bytearray()
    return await read_form(request(raw, step, kind), taken.extend), bytes(taken)


class Sink:
    """Takes what is written, as something that must not stay."""

    def write(self, data: bytes) -> None:
        assert data


def file_named(disposition: bytes) -> bytes:
    return b'Content-Disposition: form-data; name="file"' + disposition + b"\r\n\r\nx"


@pytest.mark.parametrize("parts", [(PURPOSE, FILE), (FILE, PURPOSE)])
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
async def test_fields_before_or_after_the_file_however_the_stream_is_cut(parts: Sequence[bytes], step: int) -> None:
    form, content = await read(body(*parts), step)
    assert form == Form("in.jsonl", {"purpose": "batch"})
    assert content == b"line\r\n--b-\n"


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('; filename="r\u00e9sum\u00e9 \U0001f600.jsonl"'.encode(), "r\u00e9sum\u00e9 \U0001f600.jsonl"),
        (b'; filename="a\\"b.jsonl"', 'a"b.jsonl'),
        (b"; filename*=utf-8''r%C3%A9sum%C3%A9.jsonl", "r\u00e9sum\u00e9.jsonl"),
        (b'; filename=""', "upload.jsonl"),
        (b"", "upload.jsonl"),
    ],
)
async def test_file_names(disposition: bytes, name: str) -> None:
    form, _ = await read(body(file_named(disposition)))
    assert form.filename == name


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no form at all",
        body(PURPOSE, FILE)[:-8],
        body(PURPOSE),
        body(FILE, FILE),
        body(FILE, b'Content-Disposition: form-data; name="other"; filename="x"\r\n\r\nx'),
        body(b"Content-Type: text/plain\r\n\r\nx"),
        body(b'Content-Disposition: form-data; name="purpose"\r\n\r\n\xff', FILE),
        body(file_named(b'; filename="a\0b"')),
        body(file_named(b'; filename="\xff"')),
        body(file_named(b"; filename*=utf-8''a%00b")),
        body(b"bad header\r\n\r\nx"),
        body(b'Content-Disposition: form-data; name="x"\r\n\r\n' + b"x" * (ENVELOPE_BYTES + 1), FILE),
    ],
)
async def test_anything_else_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await read(raw)


EMPTY = b'Content-Disposition: form-data; name="x"\r\n\r\n'


@pytest.mark.parametrize(
    "raw",
    [
        body(FILE, *[EMPTY] * 3_000),
        body(FILE, b'Content-Disposition: form-data; name="' + b"x" * ENVELOPE_BYTES + b'"\r\n\r\n'),
        body(*[b"X-Long: " + b"x" * 4_000 + b"\r\n" + EMPTY] * 20, FILE),
        body(FILE) + b"x" * (ENVELOPE_BYTES + 1),
    ],
    ids=["empty fields", "a name", "headers", "what follows the end"],
)
async def test_everything_but_the_file_fits_the_envelope_together(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        await read(raw)


async def test_parts_without_an_end_are_not_read_to_it() -> None:
    """A chunked body has no length that could be looked at first."""
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": (b"--b\r\n" + EMPTY + b"\r\n") * 1_000, "more_body": True}

    kind = b"multipart/form-data; boundary=b"
    with pytest.raises(InvalidRequest, match="beside the file"):
        await read_form(Request({"type": "http", "headers": [(b"content-type", kind)]}, receive), bytearray().extend)
    assert taken < 10


async def test_the_file_itself_is_not_charged() -> None:
    _, content = await read(body(PURPOSE, file_named(b"") + b"y" * (10 * ENVELOPE_BYTES)), step=1_000)
    assert len(content) == 10 * ENVELOPE_BYTES + 1


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 1000, ""]
)
async def test_only_multipart_with_a_boundary(kind: str) -> None:
    with pytest.raises(InvalidRequest):
        await read(body(PURPOSE, FILE), kind=kind)


async def test_the_sink_is_let_go_without_the_garbage_collector() -> None:
    sink = Sink()
    gone = weakref.ref(sink)
    gc.disable()  # it comes seldom in a gateway, and a sink may hold a whole file
    try:
        await read_form(request(body(PURPOSE, FILE)), sink.write)
        del sink
        assert gone() is None
    finally:
        gc.enable()
