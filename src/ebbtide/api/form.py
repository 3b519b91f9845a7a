"""The multipart/form-data of a file upload (RFC 7578), read as it streams in: the file goes straight to its sink.

Fields may come before or after the file. Exactly one part is the file: the one named `file`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from ebbtide.errors import InvalidRequest

FILE_FIELD = "file"
UNNAMED = "upload.jsonl"
ENVELOPE_BYTES = 64 * 1024
BLOCK_BYTES = 256 * 1024
_EXTENDED_NAME = re.compile(rb"""filename\*\s*=\s*"?utf-8'[^']*'([^;"\s]+)""", re.IGNORECASE)


@dataclass
class Form:
    """What an upload said beside the file's bytes: its name, and the text fields (of two equal ones the last)."""

    filename: str
    fields: dict[str, str] = field(default_factory=dict)


async def read_form(request: Request, write: Callable[[bytes], None]) -> Form:
    """Read the request's body as a form, giving the file's bytes to `write` piece by piece.

    Raises InvalidRequest for anything but one whole form with one file, and whatever `write` raises.
    """
    reader = _FormReader(_boundary(request), write)
    try:
        async for block in in_blocks(request.stream()):
            await asyncio.to_thread(reader.feed, block)
        return await asyncio.to_thread(reader.finish)
    finally:
        reader.let_go()


async def in_blocks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in blocks worth a thread's while: the sink may compress, which would hold the event loop."""
    block = bytearray()
    async for piece in pieces:
        block += piece
        if len(block) >= BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise InvalidRequest("Send the file as multipart/form-data, with a boundary in the Content-Type header")
    return boundary


class _FormReader:
    """Turns the parser's callbacks into a Form. Whatever is not the file's bytes must fit the envelope together."""

    def __init__(self, boundary: bytes, write: Callable[[bytes], None]) -> None:
        self._write_file = write
        self._fields: dict[str, str] = {}
        self._filename: str | None = None
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._fed = 0
        self._written = 0
        self._withheld = len(boundary) + 4  # bytes of a file that may yet turn out to be its end
        self._ended = False
        self._parser = self._build_parser(boundary)

    def feed(self, piece: bytes) -> None:
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise InvalidRequest("The multipart body is malformed") from error
        self._fed += len(piece)
        if self._fed - self._written > ENVELOPE_BYTES + self._withheld:
            raise InvalidRequest(f"The form holds more than {ENVELOPE_BYTES // 1024} KiB beside the file")

    def finish(self) -> Form:
        if not self._ended:
            raise InvalidRequest("The multipart body is malformed: it ends before its closing boundary")
        if self._filename is None:
            raise InvalidRequest("The form has no file: send one part named 'file'", param=FILE_FIELD)
        return Form(self._filename, self._fields)

    def let_go(self) -> None:
        """Part from the parser, whose callbacks hold this reader and so the sink: the garbage collector, which alone
        frees such a circle, seldom comes, and a sink is large.
        """
        self._parser.callbacks = {}

    def _build_parser(self, boundary: bytes) -> MultipartParser:
        try:
            return MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._collect_header,
                    "on_header_value": self._collect_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open_part,
                    "on_part_data": self._take_data,
                    "on_part_end": self._end_part,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise InvalidRequest("The multipart boundary is too long") from error

    def _begin_part(self) -> None:
        self._disposition = b""
        self._header.clear()
        self._value.clear()

    def _collect_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _collect_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _open_part(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise InvalidRequest("The multipart body is malformed: a part has no name")
        self._name = _text(options[b"name"])
        if self._name == FILE_FIELD:
            self._open_file(options.get(b"filename"))
        elif b"filename" in options:
            raise InvalidRequest("The form has a file that is not named 'file'", param=self._name)

    def _open_file(self, name: bytes | None) -> None:
        if self._filename is not None:
            raise InvalidRequest("The form has more than one file: send one part named 'file'", param=FILE_FIELD)
        filename = _text(name) if name else _extended_name(self._disposition)
        if "\0" in filename:
            raise InvalidRequest("The file name must not contain a NUL character", param=FILE_FIELD)
        self._filename = filename or UNNAMED

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        if self._name == FILE_FIELD:
            self._written += end - start
            self._write_file(data[start:end])
            return
        self._value += data[start:end]

    def _end_part(self) -> None:
        if self._name != FILE_FIELD:
            self._fields[self._name] = _text(bytes(self._value))

    def _end(self) -> None:
        self._ended = True


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("The form's names and fields must be UTF-8") from error


def _extended_name(disposition: bytes) -> str:
    """`filename*=utf-8''…` (RFC 5987): not allowed in forms, but what some clients send for a name beyond ASCII."""
    found = _EXTENDED_NAME.search(disposition)
    return unquote(found[1].decode("ascii", "replace")) if found else ""
