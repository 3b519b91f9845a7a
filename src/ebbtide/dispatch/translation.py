"""Carrying a call to a server of another language and its answer back, by way of the neutral form. No I/O.

OpenAI is what callers speak; a server that speaks it too gets and gives bytes untouched (ebbtide.dispatch.kinds).
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from ebbtide.catalog.model import Route
from ebbtide.dialects.anthropic import requests as anthropic_requests
from ebbtide.dialects.anthropic import responses as anthropic_responses
from ebbtide.dialects.anthropic.stream import MessageEvents
from ebbtide.dialects.base import Stream
from ebbtide.dialects.gemini import requests as gemini_requests
from ebbtide.dialects.gemini import responses as gemini_responses
from ebbtide.dialects.gemini.stream import GeneratedEvents
from ebbtide.dialects.openai.completions import Chunks, Named, write_completion, write_embeddings
from ebbtide.dialects.openai.conversation import read_conversation, read_embed
from ebbtide.dialects.openai.responses import MalformedAnswer, read_answer, read_error
from ebbtide.dialects.openai.stream import DONE, ChatStream
from ebbtide.dialects.values import Answer, UpstreamError, Usage
from ebbtide.dispatch.kinds import KINDS, anthropic_version, gemini_model, is_translated, plain_body
from ebbtide.dispatch.outcome import Call

_FALLBACK_TOKENS = 4096  # of a model whose limit nobody stated; the models file asks for it


class Told(msgspec.Struct, frozen=True):
    """An upstream's error, the HTTP status it amounts to, and seconds to wait where its body told them."""

    error: UpstreamError
    status: int
    retry_after: float | None = None


def body_for(call: Call, route: Route, *, stream: bool) -> bytes:
    """The body that a route's server takes. Raises InvalidRequest naming what it cannot carry."""
    language = KINDS[route.kind].language
    if language == "openai":
        return plain_body(call, route, stream=stream)
    if call.target == "embeddings":
        return gemini_requests.write_embed(read_embed(call.body), gemini_model(route))
    asked = read_conversation(call.body)
    if language == "gemini":
        return gemini_requests.write_request(asked)
    most = call.model.max_output_tokens or _FALLBACK_TOKENS
    sent = anthropic_requests.Sent(route.model, anthropic_version(route), most, stream)
    return anthropic_requests.write_request(asked, sent)


def answer_of(call: Call, route: Route, body: bytes, created: int) -> Answer:
    """A 200 as the caller gets it. Raises MalformedAnswer."""
    if not is_translated(route):
        return read_answer(call.target, body, call.requested)
    named = Named(call.requested, created)
    try:
        if call.target == "embeddings":
            packed = read_embed(call.body).packed
            embedded = gemini_responses.read_vectors(body)
            return Answer(write_embeddings(embedded, named, packed=packed), embedded.usage)
        if KINDS[route.kind].language == "gemini":
            completion = gemini_responses.read_generated(body)
        else:
            completion = anthropic_responses.read_message(body)
    except ValueError as error:
        raise MalformedAnswer(str(error)) from None
    return Answer(write_completion(completion, named), completion.usage)


def error_of(route: Route, body: bytes, status: int) -> Told:
    """What an error answer says."""
    language = KINDS[route.kind].language
    if language == "anthropic":
        error, _ = anthropic_responses.read_error(body)
        return Told(error or read_error(body, status), anthropic_responses.STATUSES.get(status, status))
    if language == "gemini" and (told := gemini_responses.read_error(body)) is not None:
        return Told(told.error, told.status if told.status == 401 else status, told.retry_after)
    return Told(read_error(body, status), status)


def stream_of(call: Call, route: Route, created: int) -> Stream:
    """What turns the upstream's bytes into the caller's events."""
    if not is_translated(route):
        return ChatStream(call.requested, show_usage=call.asks_usage)
    seed = hashlib.blake2b(call.body, digest_size=12).hexdigest()
    events = MessageEvents() if KINDS[route.kind].language == "anthropic" else GeneratedEvents(seed)
    return _Translated(events, Chunks(Named(call.requested, created)), show_usage=call.asks_usage)


def told_status(stream: Stream) -> int:
    """The HTTP status that the error event of a stream amounts to."""
    return stream.status if isinstance(stream, _Translated) else 502


class _Translated:
    """A stream in another language, as a stream of chunks."""

    def __init__(self, events: MessageEvents | GeneratedEvents, chunks: Chunks, *, show_usage: bool) -> None:
        self.done = False
        self._events = events
        self._chunks = chunks
        self._show_usage = show_usage

    @property
    def usage(self) -> Usage | None:
        return self._events.usage

    @property
    def error(self) -> UpstreamError | None:
        return self._events.error

    @property
    def status(self) -> int:
        return self._events.status

    def feed(self, chunk: bytes) -> list[bytes]:
        return self._written("feed", chunk)

    def close(self) -> list[bytes]:
        return self._written("close")

    def _written(self, how: Literal["feed", "close"], chunk: bytes = b"") -> list[bytes]:
        events = self._events
        pieces = events.feed(chunk) if how == "feed" else events.close()
        self._chunks.id = self._chunks.id or events.id
        written = [self._chunks.write(pieces)] if pieces else []
        if events.done and not self.done:
            self.done = True
            if self._show_usage and events.usage is not None:
                written.append(self._chunks.usage(events.usage))
            written.append(DONE)
        return written
