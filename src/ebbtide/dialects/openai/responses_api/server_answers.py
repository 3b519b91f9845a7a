"""What a server that speaks the Responses API answers, read into the neutral form: whole answers and streams.

Items that a server's own tools left are its affair and are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from ebbtide.dialects.conversation import (
    CallPiece,
    CallStart,
    Choice,
    Completion,
    End,
    Finish,
    Part,
    Piece,
    Text,
    TextPiece,
    Thought,
    ThoughtPiece,
    ToolCall,
    arguments_in,
)
from ebbtide.dialects.openai.responses_api.passing import failure_of, usage_of
from ebbtide.dialects.pieces import PieceReader

_REASONS: Final[dict[str, Finish]] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _Content(msgspec.Struct):
    type: str
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str
    content: list[_Content] | None = None
    summary: list[_Content] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class _Details(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    output: list[_Item]
    id: str = ""
    status: str = "completed"
    incomplete_details: _Details | None = None
    usage: object = None


_decode = msgspec.json.Decoder(dict[str, object]).decode
_decode_response = msgspec.json.Decoder(_Response).decode


def read_response(body: bytes) -> Completion:
    """A whole answer. Raises ValueError for what is none, a response that failed or still waits included."""
    try:
        response = _decode_response(body)
        parts = tuple(part for item in response.output for part in _parts(item))
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    if response.status not in ("completed", "incomplete"):
        raise ValueError("Not an answer")
    reason = None if response.incomplete_details is None else response.incomplete_details.reason
    refused = any(inner.refusal for item in response.output for inner in item.content or ())
    called = any(isinstance(part, ToolCall) for part in parts)
    finish = _finish(reason, refused=refused, called=called)
    return Completion(response.id, (Choice(parts, finish),), usage_of(response.usage))


def _parts(item: _Item) -> Iterator[Part]:
    if item.type == "message":
        for part in item.content or ():
            if text := part.text or part.refusal:
                yield Text(text)
    elif item.type == "function_call":
        arguments, written = arguments_in(item.arguments)
        yield ToolCall(item.call_id, item.name, arguments, written=written)
    elif item.type == "reasoning" and (text := _said(item.content) or _said(item.summary)):
        yield Thought(text)


def _said(parts: list[_Content] | None) -> str:
    return "".join(part.text for part in parts or ())


def _finish(reason: str | None, *, refused: bool, called: bool) -> Finish:
    if reason is not None:
        return _REASONS.get(reason, "length")
    if refused:
        return "content_filter"
    return "tool_calls" if called else "stop"


class ResponsePieces(PieceReader):
    """`usage` and `done` come with the event that ends the response."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, int] = {}  # by output index
        self._silent: set[int] = set()  # calls whose arguments did not come yet
        self._refused = False
        self._readers: dict[str, Callable[[dict[str, Any]], Iterator[Piece]]] = {
            "response.created": self._created,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._refusal,
            "response.reasoning_text.delta": self._thought,
            "response.reasoning_summary_text.delta": self._thought,
            "response.output_item.added": self._item,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._all_arguments,
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._fail,
            "error": self._fail,
        }

    def read(self, data: bytes) -> Iterator[Piece]:
        if data.strip() == b"[DONE]":  # some servers end every stream as chat completions do
            return
        said = _decode(data)
        reader = self._readers.get(str(said.get("type")))
        if reader is not None:
            yield from reader(said)

    def _created(self, said: dict[str, Any]) -> Iterator[Piece]:
        self.id = str(said["response"]["id"])
        yield from ()

    def _text(self, said: dict[str, Any]) -> Iterator[Piece]:
        yield TextPiece(0, str(said["delta"]))

    def _refusal(self, said: dict[str, Any]) -> Iterator[Piece]:
        self._refused = True
        yield TextPiece(0, str(said["delta"]))

    def _thought(self, said: dict[str, Any]) -> Iterator[Piece]:
        yield ThoughtPiece(0, str(said["delta"]))

    def _item(self, said: dict[str, Any]) -> Iterator[Piece]:
        item, index = said["item"], said["output_index"]
        if item["type"] == "function_call":
            self._calls[index] = len(self._calls)
            self._silent.add(index)
            yield CallStart(0, self._calls[index], str(item["call_id"]), str(item["name"]))

    def _arguments(self, said: dict[str, Any]) -> Iterator[Piece]:
        self._silent.discard(said["output_index"])
        yield CallPiece(0, self._calls[said["output_index"]], str(said["delta"]))

    def _all_arguments(self, said: dict[str, Any]) -> Iterator[Piece]:
        if said["output_index"] in self._silent:
            yield from self._arguments({**said, "delta": said["arguments"]})

    def _end(self, said: dict[str, Any]) -> Iterator[Piece]:
        response = said["response"]
        self.usage = usage_of(response.get("usage"))
        self.done = True
        reason = (response.get("incomplete_details") or {}).get("reason")
        yield End(0, _finish(reason, refused=self._refused, called=bool(self._calls)))

    def _fail(self, said: dict[str, Any]) -> Iterator[Piece]:
        self.error, self.status = failure_of(said)
        yield from ()
