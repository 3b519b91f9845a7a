"""A streamed Response written from the neutral form's pieces, event by event.

Every event tells its type and counts up in `sequence_number`. Reasoning and text end when something else begins; calls
end together, for a server may stream them side by side. The last event is response.completed, .incomplete or .failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    End,
    Finish,
    Piece,
    TextPiece,
    Thought,
    ThoughtEnd,
    ThoughtPiece,
    ToolCall,
)
from ebbtide.dialects.openai.responses_api.answers import (
    Asked,
    Names,
    call_item,
    ended,
    failed,
    message_item,
    reasoning_item,
    response,
    text_part,
)
from ebbtide.dialects.values import Usage
from ebbtide.errors import EbbtideError

_encode = msgspec.json.Encoder().encode


class _Message(msgspec.Struct):
    name: str
    index: int
    texts: list[str]

    def item(self, status: str) -> dict[str, object]:
        return message_item(self.name, "".join(self.texts), status)


class _Reasoning(msgspec.Struct):
    name: str
    index: int
    texts: list[str]
    sealed: Thought | None = None

    def item(self, status: str) -> dict[str, object]:
        text = "".join(self.texts)
        sealed = self.sealed
        if sealed is None:
            return reasoning_item(self.name, Thought(text))
        return reasoning_item(self.name, Thought(text, sealed.signature, sealed.redacted))


class _Call(msgspec.Struct):
    name: str
    index: int
    call: ToolCall
    texts: list[str]

    def item(self, status: str) -> dict[str, object]:
        return call_item(self.name, self.call, "".join(self.texts), status)


_Open: TypeAlias = _Message | _Reasoning | _Call


class Events:
    """Pieces in, events out as bytes. `write` for pieces, then `finish` or `fail`; nothing may follow those."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._sequence = 0
        self._names: Names | None = None
        self._begun: dict[int, _Open] = {}  # by output index
        self._ended: dict[int, dict[str, object]] = {}
        self._calls: dict[int, _Call] = {}
        self._finish: Finish = "stop"

    def write(self, pieces: Iterable[Piece], answer_id: str) -> bytes:
        """The events of these pieces."""
        return self._head(answer_id) + b"".join(self._events(pieces))

    def finish(self, usage: Usage | None) -> bytes:
        """The end of a stream that came whole."""
        end = ended(self._finish)
        status = str(end["status"])
        head = self._head("")
        closed = b"".join(self._close(_Message, _Reasoning, _Call, status=status))
        return head + closed + self._whole(status, usage=usage, **end)

    def fail(self, error: EbbtideError, _: str) -> bytes:
        """The end of a stream that broke: what had come, and why no more does."""
        head = self._head("")
        for opened in self._open():
            self._ended[opened.index] = opened.item("incomplete")
        return head + self._whole("failed", **failed(error))

    def _head(self, answer_id: str) -> bytes:
        if self._names is not None:
            return b""
        self._names = Names(answer_id)
        return self._whole("created") + self._whole("in_progress")

    def _whole(self, kind: str, **more: object) -> bytes:
        """An event that shows the response as a whole."""
        assert self._names is not None
        output = [self._ended[index] for index in sorted(self._ended)]
        told = response(self._asked, self._names.response, output=output, **more)
        return self._event(f"response.{kind}", response=told)

    def _events(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        for piece in pieces:
            match piece:
                case TextPiece(text=text) if text:
                    yield from self._text(text)
                case ThoughtPiece(text=text) if text:
                    yield from self._thought(text)
                case ThoughtEnd(thought=thought):
                    yield from self._thought_end(thought)
                case CallStart():
                    yield from self._call(piece)
                case CallPiece(call=call, text=text):
                    yield self._delta(self._calls[call], text)
                case End(finish=finish):
                    self._finish = finish

    def _text(self, text: str) -> Iterator[bytes]:
        yield from self._close(_Reasoning)
        message = self._last(_Message)
        if message is None:
            message = _Message(self._name("msg"), self._next(), [])
            yield self._begin(message, message_item(message.name, None, "in_progress"))
            yield self._event("response.content_part.added", **_place(message), part=text_part(""))
        message.texts.append(text)
        yield self._event("response.output_text.delta", **_place(message), delta=text, logprobs=[])

    def _thought(self, text: str) -> Iterator[bytes]:
        yield from self._close(_Message)
        reasoning = self._last(_Reasoning)
        if reasoning is None:
            reasoning = _Reasoning(self._name("rs"), self._next(), [])
            yield self._begin(reasoning, reasoning_item(reasoning.name, Thought()))
            part = {"type": "reasoning_text", "text": ""}
            yield self._event("response.content_part.added", **_place(reasoning), part=part)
        reasoning.texts.append(text)
        yield self._event("response.reasoning_text.delta", **_place(reasoning), delta=text)

    def _thought_end(self, thought: Thought) -> Iterator[bytes]:
        reasoning = next((one for one in self._open() if isinstance(one, _Reasoning)), None)
        if reasoning is None:
            yield from self._close(_Message)
            reasoning = _Reasoning(self._name("rs"), self._next(), [])
            yield self._begin(reasoning, reasoning_item(reasoning.name, Thought()))
        reasoning.sealed = thought
        yield from self._close(_Reasoning)

    def _call(self, start: CallStart) -> Iterator[bytes]:
        yield from self._close(_Message, _Reasoning)
        call = _Call(self._name("fc"), self._next(), ToolCall(start.id, start.name, {}, start.signature), [])
        self._calls[start.call] = call
        yield self._begin(call, call.item("in_progress"))

    def _delta(self, call: _Call, text: str) -> bytes:
        call.texts.append(text)
        kind = "response.function_call_arguments.delta"
        return self._event(kind, item_id=call.name, output_index=call.index, delta=text)

    def _begin(self, opened: _Open, item: dict[str, object]) -> bytes:
        self._begun[opened.index] = opened
        return self._event("response.output_item.added", output_index=opened.index, item=item)

    def _close(self, *kinds: type[_Open], status: str = "completed") -> Iterator[bytes]:
        for opened in [one for one in self._open() if isinstance(one, kinds)]:
            item = self._ended[opened.index] = opened.item(status)
            yield from self._last_words(opened)
            yield self._event("response.output_item.done", output_index=opened.index, item=item)

    def _last_words(self, opened: _Open) -> Iterator[bytes]:
        text = "".join(opened.texts)
        if isinstance(opened, _Call):
            yield self._event(
                "response.function_call_arguments.done",
                item_id=opened.name,
                output_index=opened.index,
                name=opened.call.name,
                arguments=text,
            )
        elif isinstance(opened, _Message):
            yield self._event("response.output_text.done", **_place(opened), text=text, logprobs=[])
            yield self._event("response.content_part.done", **_place(opened), part=text_part(text))
        elif opened.texts:
            yield self._event("response.reasoning_text.done", **_place(opened), text=text)
            part = {"type": "reasoning_text", "text": text}
            yield self._event("response.content_part.done", **_place(opened), part=part)

    def _open(self) -> list[_Open]:
        return [one for index, one in self._begun.items() if index not in self._ended]

    def _last(self, kind: type[_Message] | type[_Reasoning]) -> _Message | _Reasoning | None:
        return next((one for one in self._open() if isinstance(one, kind)), None)

    def _next(self) -> int:
        return len(self._begun)

    def _name(self, prefix: str) -> str:
        assert self._names is not None
        return self._names.item(prefix)

    def _event(self, kind: str, **members: object) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return event(kind, sequence_number=number, **members)


def event(kind: str, **members: object) -> bytes:
    """One server-sent event, with its blank line."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind, **members}))


def _place(opened: _Message | _Reasoning) -> dict[str, object]:
    return {"item_id": opened.name, "output_index": opened.index, "content_index": 0}
