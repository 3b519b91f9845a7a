"""A stream in the form of one JSON array, as streamGenerateContent answers without `alt=sse`."""

from __future__ import annotations

from ebbtide.dialects.sse import Events, data_of


class Array:
    """Events in, the array's bytes out as they come. A stream that broke ends with its error as the last element."""

    def __init__(self) -> None:
        self._events = Events()
        self._begun = False

    def feed(self, chunk: bytes) -> bytes:
        """The elements that `chunk` completes."""
        return b"".join(self._element(event) for event in self._events.feed(chunk))

    def close(self) -> bytes:
        """The array's end."""
        return (b"" if self._begun else b"[") + b"]\n"

    def _element(self, event: bytes) -> bytes:
        data = data_of(event)
        if not data:
            return b""
        before, self._begun = (b",\r\n" if self._begun else b"["), True
        return before + data
