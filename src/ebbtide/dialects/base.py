"""The contract of a dialect: a folder whose modules turn one wire form into meaning and back. Pure: no I/O, no clock.

What a form can do stands in one row per target (`Caller`: it is spoken to us) and one per wire form (`Server`: we
speak it to upstreams); `ebbtide.dialects.targets` is the table of them. A request that goes from one form to another
is read into the neutral form (`ebbtide.dialects.conversation`) and written from it, so that a new form is a row and
its functions, never a pair. A dialect knows no other dialect; what two of them share is in `values`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ebbtide.dialects.conversation import Named, Piece, Sent
from ebbtide.dialects.values import Answer, BatchBody, Body, Terms, Told, UpstreamError, Usage
from ebbtide.errors import EbbtideError


class Stream(Protocol):
    """One streamed answer on its way to the caller: bytes in, whole events out, and what they told on the way.

    `status` is the HTTP status that `error` amounts to; `fail` writes the end of a stream that broke, once.
    """

    @property
    def usage(self) -> Usage | None: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> UpstreamError | None: ...
    @property
    def status(self) -> int: ...

    def feed(self, chunk: bytes) -> list[bytes]: ...
    def close(self) -> list[bytes]: ...
    def fail(self, error: EbbtideError, request_id: str) -> bytes: ...


class Pieces(Protocol):
    """One streamed answer of a server: bytes in, pieces of the neutral form out. Told besides: as a Stream does."""

    @property
    def id(self) -> str: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def done(self) -> bool: ...
    @property
    def error(self) -> UpstreamError | None: ...
    @property
    def status(self) -> int: ...

    def feed(self, chunk: bytes) -> list[Piece]: ...
    def close(self) -> list[Piece]: ...


class Writer(Protocol):
    """Writes pieces as the events of a stream; `finish` or `fail` writes its end, once."""

    def write(self, pieces: Sequence[Piece], answer_id: str) -> bytes: ...
    def finish(self, usage: Usage | None) -> bytes: ...
    def fail(self, error: EbbtideError, request_id: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A form that callers speak. What is read and written is a Conversation and a Completion, or for embeddings an
    Embed and an Embedded. All reading of requests raises InvalidRequest, which names the field and quotes nothing.

    - parse_body, check_batch_body   an interactive body; the decoded body of a batched request
    - read_request                   a checked body, whole: a member without a place in the neutral form is refused
    - write_answer, write_stream     from the neutral form, of the request whose bytes are given last
    - pass_body, pass_answer, pass_stream   untouched, but for the model's name, to and from a server of the same form
    - render_error                   status, headers and body of an error
    - paths                          patterns of paths as chat completions have them, in which a server's writer
                                     complains, and what this form calls the same
    """

    parse_body: Callable[[bytes, Terms], Body]
    check_batch_body: Callable[[dict[str, object], Terms], BatchBody]
    read_request: Callable[[bytes], Any]
    write_answer: Callable[[Any, Named, bytes], bytes]
    write_stream: Callable[[Named, bool, bytes], Writer]
    pass_body: Callable[[bytes, Sent], bytes]
    pass_answer: Callable[[bytes, str], Answer]
    pass_stream: Callable[[str, bool], Stream]
    render_error: Callable[[EbbtideError, str], tuple[int, dict[str, str], bytes]]
    paths: tuple[tuple[re.Pattern[str], str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A form that upstreams speak, to and from the neutral form.

    `write_request` raises InvalidRequest for what has no words there, `read_answer` ValueError for a 200 that is no
    answer; `read_stream` gets a seed for ids that the server left out. `read_error` gives None for what it cannot
    read, and `read_usage` finds what a decoded object says it used.
    """

    write_request: Callable[[Any, Sent], bytes]
    read_answer: Callable[[bytes], Any]
    read_stream: Callable[[str], Pieces]
    read_error: Callable[[bytes, int], Told | None]
    read_usage: Callable[[dict[str, object]], Usage | None]
