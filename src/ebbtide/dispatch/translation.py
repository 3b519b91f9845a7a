"""Carrying a call to a server and its answer back: untouched where the server speaks the caller's form, else by way of
the neutral form. No I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.base import Caller, Pieces, Stream, Writer
from ebbtide.dialects.conversation import Named, Piece, Sent, cannot
from ebbtide.dialects.openai.responses import read_error
from ebbtide.dialects.targets import CALLERS, SERVERS
from ebbtide.dialects.values import (
    CALLED,
    Answer,
    MalformedAnswer,
    Target,
    Terms,
    Told,
    UnsayableAnswer,
    UpstreamError,
    Usage,
    Wire,
)
from ebbtide.dispatch.kinds import KINDS, anthropic_version, fitted, gemini_model, wire_of
from ebbtide.dispatch.outcome import Call
from ebbtide.errors import EbbtideError, InvalidRequest

_FALLBACK_TOKENS: Final = 4096  # of a model whose limit nobody stated; the models file asks for it


def body_for(call: Call, route: Route, *, stream: bool) -> bytes:
    """The body that a route's server takes. Raises InvalidRequest naming what it cannot carry."""
    wire = _wire(call.target, route)
    caller = CALLERS[call.target]
    sent = _sent(call, route, stream=stream)
    if wire == call.target:
        if wire in KINDS[route.kind].inside:
            _translated(call, "chat", sent)
        return caller.pass_body(fitted(call.body, wire, call, route), sent)
    return fitted(_translated(call, wire, sent), wire, call, route)


def _translated(call: Call, wire: Wire, sent: Sent) -> bytes:
    caller = CALLERS[call.target]
    _refuse_headers(call)
    asked = caller.read_request(call.body)
    try:
        return SERVERS[wire].write_request(asked, sent)
    except InvalidRequest as error:
        raise _in_words_of(caller, error) from None


def _in_words_of(caller: Caller, error: InvalidRequest) -> InvalidRequest:
    """The same complaint, naming the field as the caller's form does."""
    path = error.param or ""
    for pattern, ours in caller.paths:
        path = pattern.sub(ours, path)
    problem = error.message.removeprefix(f"{error.param}: ")
    return InvalidRequest(f"{path}: {problem}", param=path, code=error.code) if path else error


def check_carried(model: Model, target: Target, body: dict[str, object], terms: Terms) -> None:
    """Raises InvalidRequest when none of a model's routes for batch work can carry a request: the first one's."""
    routes = [route for route in model.routes if route.batch_allowed]
    if any(_takes_all(route, target) for route in routes):
        return
    call = Call(target, model, msgspec.json.encode(body), model.id, "batch", version=terms.version)
    refusals = []
    for route in routes:
        try:
            body_for(call, route, stream=False)
        except InvalidRequest as error:
            refusals.append(error)
            continue
        return
    if refusals:
        raise refusals[0]


def _takes_all(route: Route, target: Target) -> bool:
    """Whether the server takes whatever a request of this target says."""
    return wire_of(route, target) == target and target not in KINDS[route.kind].inside


def serves(model: Model, target: Target) -> bool:
    """Whether any route of the model can be asked for a target."""
    return any(wire_of(route, target) is not None for route in model.routes)


def answer_of(call: Call, route: Route, body: bytes, created: int) -> Answer:
    """A 200 as the caller gets it. Raises MalformedAnswer and UnsayableAnswer."""
    wire, caller = _wire(call.target, route), CALLERS[call.target]
    if wire == call.target:
        return caller.pass_answer(body, call.requested)
    try:
        said = SERVERS[wire].read_answer(body)
        return Answer(caller.write_answer(said, Named(call.requested, created), call.body), said.usage)
    except UnsayableAnswer:
        raise
    except ValueError as error:
        failed = _error_under_200(body)
        if failed is None:
            raise MalformedAnswer(str(error)) from None
        return failed


def error_of(call: Call, route: Route, body: bytes, status: int) -> Told:
    """What an error answer says."""
    told = SERVERS[_wire(call.target, route)].read_error(body, status)
    return told or Told(read_error(body, status), status)


def usage_of(call: Call, route: Route, said: dict[str, object]) -> Usage | None:
    """What a decoded answer, of whatever worth, says that it used."""
    return SERVERS[_wire(call.target, route)].read_usage(said)


def stream_of(call: Call, route: Route, created: int) -> Stream:
    """What turns the upstream's bytes into the caller's events."""
    wire, caller = _wire(call.target, route), CALLERS[call.target]
    if wire == call.target:
        return caller.pass_stream(call.requested, call.asks_usage)
    seed = hashlib.blake2b(call.body, digest_size=12).hexdigest()
    writer = caller.write_stream(Named(call.requested, created), call.asks_usage, call.body)
    return _Translated(SERVERS[wire].read_stream(seed), writer)


def _wire(target: Target, route: Route) -> Wire:
    wire = wire_of(route, target)
    if wire is None:
        raise cannot("model", f"the model's server cannot be asked for {CALLED.get(target, target)}")
    return wire


def _sent(call: Call, route: Route, *, stream: bool) -> Sent:
    return Sent(
        model=gemini_model(route) if route.kind == "gemini" else route.model,
        version=anthropic_version(route),
        max_tokens=call.model.max_output_tokens or _FALLBACK_TOKENS,
        stream=stream,
        extras=KINDS[route.kind].extras,
    )


def _refuse_headers(call: Call) -> None:
    if call.beta is not None:
        raise cannot("anthropic-beta", "the model's server has no betas")


def _error_under_200(body: bytes) -> Answer | None:
    """The error that a proxy sends under status 200, if this is one."""
    try:
        said = msgspec.json.decode(body, type=dict[str, object])
    except (ValueError, RecursionError):
        return None
    if not said.get("error"):
        return None
    error = read_error(body, 502)
    return Answer(b"", None, UpstreamError(error.message, error.code, error.param))


class _Translated:
    """A stream of one form, as a stream of another."""

    def __init__(self, pieces: Pieces, writer: Writer) -> None:
        self.done = False
        self._pieces = pieces
        self._writer = writer

    @property
    def usage(self) -> Usage | None:
        return self._pieces.usage

    @property
    def error(self) -> UpstreamError | None:
        return self._pieces.error

    @property
    def status(self) -> int:
        return self._pieces.status

    def feed(self, chunk: bytes) -> list[bytes]:
        return self._written(self._pieces.feed(chunk))

    def close(self) -> list[bytes]:
        return self._written(self._pieces.close())

    def fail(self, error: EbbtideError, request_id: str) -> bytes:
        return self._writer.fail(error, request_id)

    def _written(self, pieces: Sequence[Piece]) -> list[bytes]:
        said = self._pieces
        written = [self._writer.write(pieces, said.id)] if pieces else []
        if said.done and not self.done:
            self.done = True
            written.append(self._writer.finish(said.usage))
        return written
