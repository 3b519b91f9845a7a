"""Server-sent events taken apart. Bytes may be cut anywhere.

Syntax: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.dialects.values import BOM

MAX_EVENT_BYTES = 16 * 1024 * 1024


class Events:
    """Turns bytes into whole events, each without its blank line, lines ended by `\\n`."""

    def __init__(self) -> None:
        self._buffer = b""
        self._held = b""
        self._at_start = True

    @property
    def is_overfull(self) -> bool:
        """Whether the event that has begun is larger than any may be."""
        return len(self._buffer) > MAX_EVENT_BYTES

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes."""
        self._buffer += self._lines(chunk)
        *events, self._buffer = self._buffer.split(b"\n\n")
        return events

    def close(self) -> bytes:
        """The last event where the blank line after it was left out, or nothing."""
        rest, self._held, self._buffer = self._buffer + self._held.replace(b"\r", b"\n"), b"", b""
        return rest

    def _lines(self, chunk: bytes) -> bytes:
        if self._at_start:
            # Held back until a BOM can be told from anything else.
            chunk, self._held = self._held + chunk, b""
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._held = chunk
                return b""
            chunk, self._at_start = chunk.removeprefix(BOM), False
        if self._held or b"\r" in chunk:
            chunk, self._held = self._held + chunk, b""
            if chunk.endswith(b"\r"):  # perhaps half of \r\n
                chunk, self._held = chunk[:-1], b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk


def data_of(event: bytes) -> bytes:
    """An event's data, its lines joined."""
    return b"\n".join(_data_lines(event))


def _data_lines(event: bytes) -> Iterator[bytes]:
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            yield line[5:].removeprefix(b" ")
