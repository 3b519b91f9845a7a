"""What a chat completions server answers, read into the neutral form: whole answers and streams.

`reasoning_content` and `reasoning` are the names under which such servers give reasoning; `stop_reason` is what some
say of the stop sequence that matched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
from ebbtide.dialects.openai.responses import error_of, status_told, usage_of
from ebbtide.dialects.pieces import PieceReader

_FINISHES: Final[dict[str, Finish]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class _Google(msgspec.Struct):
    thought_signature: str | None = None


class _Extra(msgspec.Struct):
    google: _Google = msgspec.field(default_factory=_Google)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)
    extra_content: _Extra | None = None

    @property
    def signature(self) -> str | None:
        return None if self.extra_content is None else self.extra_content.google.thought_signature


class _Said(msgspec.Struct):
    """A message, or what a chunk adds to one."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None

    @property
    def thought(self) -> str:
        return self.reasoning_content or self.reasoning or ""


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Said = msgspec.field(default_factory=_Said)
    delta: _Said = msgspec.field(default_factory=_Said)
    finish_reason: str | None = None
    stop_reason: object = None

    @property
    def matched(self) -> str | None:
        return self.stop_reason if isinstance(self.stop_reason, str) else None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    id: str = ""
    usage: object = None


_decode = msgspec.json.Decoder(dict[str, object]).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


def read_completion(body: bytes) -> Completion:
    """A whole answer. Raises ValueError for what is none."""
    try:
        answer = _decode_answer(body)
        choices = tuple(_choice(choice) for choice in answer.choices)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    if not choices:
        raise ValueError("No choices")
    return Completion(answer.id, choices, usage_of("chat", answer.usage))


def _choice(choice: _Choice) -> Choice:
    parts = tuple(_parts(choice.message))
    called = any(isinstance(part, ToolCall) for part in parts)
    return Choice(parts, _finish(choice.finish_reason, choice.message, called=called), choice.matched)


def _parts(said: _Said) -> Iterator[Part]:
    if said.thought:
        yield Thought(said.thought)
    if text := said.content or said.refusal:
        yield Text(text)
    for number, call in enumerate(said.tool_calls or ()):
        arguments, written = arguments_in(call.function.arguments or "")
        name = call.id or f"call_{number}"
        yield ToolCall(name, call.function.name or "", arguments, call.signature, written)


def _finish(reason: str | None, said: _Said, *, called: bool) -> Finish:
    """Some servers say `stop` where a tool is called."""
    if said.refusal:
        return "content_filter"
    finish = _FINISHES.get(reason or "stop", "stop")
    return "tool_calls" if finish == "stop" and called else finish


class ChatPieces(PieceReader):
    """`usage` comes in a chunk of its own, before `[DONE]`, which some servers leave out."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed
        self._called: set[tuple[int, int]] = set()
        self._refused: set[int] = set()
        self._begun: set[int] = set()
        self._finished: set[int] = set()

    def is_whole(self) -> bool:
        return bool(self._begun) and self._begun == self._finished

    def read(self, data: bytes) -> Iterator[Piece]:
        if data.strip() == b"[DONE]":
            self.done = True
            return
        if b'"error"' in data and (failed := error_of(told := _decode(data))) is not None:
            self.error, self.status = failed, status_told(told)
            return
        chunk = _decode_answer(data)
        self.id = self.id or chunk.id
        self.usage = usage_of("chat", chunk.usage) or self.usage
        for choice in chunk.choices:
            yield from self._choice(choice)

    def _choice(self, choice: _Choice) -> Iterator[Piece]:
        index, said = choice.index, choice.delta
        self._begun.add(index)
        if said.thought:
            yield ThoughtPiece(index, said.thought)
        if said.refusal:
            self._refused.add(index)
        if text := said.content or said.refusal:
            yield TextPiece(index, text)
        for call in said.tool_calls or ():
            yield from self._call(index, call)
        if choice.finish_reason:
            self._finished.add(index)
            yield End(index, self._finish(index, choice.finish_reason), choice.matched)

    def _call(self, index: int, call: _Call) -> Iterator[Piece]:
        number = (index, call.index)
        if number not in self._called:
            self._called.add(number)
            name = call.id or f"call_{self._seed}_{index}_{call.index}"
            yield CallStart(index, call.index, name, call.function.name or "", call.signature)
        if call.function.arguments:
            yield CallPiece(index, call.index, call.function.arguments)

    def _finish(self, index: int, reason: str) -> Finish:
        if index in self._refused:
            return "content_filter"
        finish = _FINISHES.get(reason, "stop")
        called = any(at == index for at, _ in self._called)
        return "tool_calls" if finish == "stop" and called else finish
