"""The contract of a dialect: a folder whose modules turn one wire form into meaning and back. Pure: no I/O, no clock.

- requests   bodies checked and lifted into values.Body; the dialect's own create call and request lines
- responses  an upstream's answer checked, renamed and read for its tokens and errors
- stream     an upstream's events taken apart, read and put together again
- batch      the wire objects (msgspec Structs, fields in documented order) and the lines of result files
- errors     the one table that renders an EbbtideError

A dialect knows no other dialect; what two of them share is in values. The module-shaped protocols below are the part
that callers use without knowing which dialect they hold; batch objects differ too much to share a form.
"""

from __future__ import annotations

from typing import Protocol

from ebbtide.dialects.values import Answer, BatchBody, Body, Target, UpstreamError, Usage
from ebbtide.errors import EbbtideError


class Requests(Protocol):
    """The module `requests`. Raises InvalidRequest that names the field and quotes nothing."""

    def parse_body(self, target: Target, raw: bytes) -> Body: ...
    def check_batch_body(self, target: Target, body: dict[str, object]) -> BatchBody: ...
    def with_model(self, raw: bytes, model: str, **extra: object) -> bytes: ...
    def for_upstream(self, body: Body, model: str) -> bytes: ...


class Responses(Protocol):
    """The module `responses`. Raises MalformedAnswer, its own ValueError, for a 200 that is no JSON object."""

    def read_answer(self, target: Target, body: bytes, model: str) -> Answer: ...
    def read_error(self, body: bytes, status: int) -> UpstreamError: ...


class Stream(Protocol):
    """What `stream` makes for one streamed answer: bytes in, whole events out, and what they told on the way."""

    @property
    def usage(self) -> Usage | None: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> UpstreamError | None: ...

    def feed(self, chunk: bytes) -> list[bytes]: ...
    def close(self) -> list[bytes]: ...


class Errors(Protocol):
    """The module `errors`: status, headers and body."""

    def render_error(self, error: EbbtideError) -> tuple[int, dict[str, str], bytes]: ...
