"""A chat in no dialect's words: what every dialect's requests, answers and streams are turned into and written from.

So that N dialects need N codecs and not N×N translators. Reading raises InvalidRequest for what is malformed or has no
place here, and writing for what the other dialect cannot say: nothing is dropped in silence. Each thing that may have
to be refused knows the path of the field it came from.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ebbtide.dialects.values import Usage
from ebbtide.errors import InvalidRequest

Role = Literal["user", "assistant", "tool", "system"]
Finish = Literal["stop", "length", "tool_calls", "content_filter"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

_decode_arguments = msgspec.json.Decoder(dict[str, object]).decode


class Text(msgspec.Struct, frozen=True, tag=True):
    text: str


class Image(msgspec.Struct, frozen=True, tag=True):
    """Either `data` (base64, with its `media_type`) or `url` (https). `detail`: how closely it is to be looked at, None
    where that is left to the model.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    detail: Literal["low", "high"] | None = None
    path: str = ""

    def refuse_detail(self) -> None:
        """Raises InvalidRequest where it says more than a server of another make can be told."""
        if self.detail is not None:
            raise cannot(f"{self.path.rpartition('.')[0]}.detail", "the model's server takes auto alone")


class ToolCall(msgspec.Struct, frozen=True, tag=True):
    """`signature` is a proof that the model's maker wants back with the call, opaque to everyone else.

    `written` is what the model wrote where its arguments are no JSON object, as models do now and then.
    """

    id: str
    name: str
    arguments: dict[str, object]
    signature: str | None = None
    written: str | None = None
    path: str = ""


def arguments_in(text: str) -> tuple[dict[str, object], str | None]:
    """A call's arguments; what was written as well where that is no JSON object, for a model may write anything."""
    if not text.strip():
        return {}, None
    try:
        return _decode_arguments(text), None
    except (ValueError, RecursionError):
        return {}, text


class ToolResult(msgspec.Struct, frozen=True, tag=True):
    """What a tool gave back; `failed`: its caller says that this is an error.

    `name` is the tool's, None where no call of that id came before. `spelled` is a failure as text that says itself
    that it is one.
    """

    call_id: str
    parts: tuple[Text | Image, ...]
    name: str | None = None
    failed: bool = False
    path: str = ""
    spelled: str | None = None

    def unflagged(self) -> ToolResult:
        """For a server that cannot be told that a tool failed. Raises InvalidRequest where no text says so."""
        if not self.failed:
            return self
        if self.spelled is None:
            raise cannot(f"{self.path}.is_error", "the model's server cannot be told that a tool failed")
        return msgspec.structs.replace(self, parts=(Text(self.spelled),), failed=False)

    @property
    def text(self) -> str:
        """What it says, where it says nothing but text. Raises InvalidRequest for an image."""
        for part in self.parts:
            if isinstance(part, Image):
                raise cannot(part.path, "the model's server takes no image from a tool")
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Thought(msgspec.Struct, frozen=True, tag=True):
    """Reasoning: its text and signature, or `redacted`, which only the model's maker can read."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    path: str = ""


Part: TypeAlias = Text | Image | ToolCall | ToolResult | Thought


class Message(msgspec.Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]
    path: str = ""


class Tool(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """`name` with the mode `tool` alone."""

    mode: Literal["auto", "none", "required", "tool"]
    name: str | None = None


class Format(msgspec.Struct, frozen=True):
    """What the answer's text must be: any JSON, or JSON by `schema`, which `name` labels and `strict` enforces."""

    schema: dict[str, object] | None = None
    name: str | None = None
    strict: bool | None = None


class Sampling(msgspec.Struct, frozen=True):
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A request. None and empty where it does not say; `user` is the caller's own name for an end user.

    `thinking_tokens` is the most that may be spent on reasoning before the answer; `continues` the path of the
    assistant's last message where the answer is to go on from it.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    sampling: Sampling = Sampling()
    format: Format | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    count: int | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    continues: str | None = None
    user: tuple[str, str] | None = None  # the field that said it, and what it said
    tier: Literal["auto", "default"] | None = None


class Choice(msgspec.Struct, frozen=True):
    """`matched` is the stop sequence that ended it, where one did and it was told."""

    parts: tuple[Part, ...]
    finish: Finish
    matched: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """An answer; `usage` is None where it was not told."""

    id: str
    choices: tuple[Choice, ...]
    usage: Usage | None


# Pieces of a streamed answer, in order. `choice` counts from 0, as does `call`, within its choice.


class TextPiece(msgspec.Struct, frozen=True):
    choice: int
    text: str


class ThoughtPiece(msgspec.Struct, frozen=True):
    choice: int
    text: str


class ThoughtEnd(msgspec.Struct, frozen=True):
    """A thought is complete; its text came in pieces before."""

    choice: int
    thought: Thought


class CallStart(msgspec.Struct, frozen=True):
    choice: int
    call: int
    id: str
    name: str
    signature: str | None = None


class CallPiece(msgspec.Struct, frozen=True):
    """More of a call's arguments, as JSON text."""

    choice: int
    call: int
    text: str


class End(msgspec.Struct, frozen=True):
    choice: int
    finish: Finish
    matched: str | None = None


Piece: TypeAlias = TextPiece | ThoughtPiece | ThoughtEnd | CallStart | CallPiece | End


class Embed(msgspec.Struct, frozen=True):
    """A request to embed texts; `packed`: base64 of little-endian floats is asked for."""

    texts: tuple[str, ...]
    dimensions: int | None = None
    packed: bool = False


class Embedded(msgspec.Struct, frozen=True):
    vectors: tuple[tuple[float, ...], ...]
    usage: Usage | None


class Counted(msgspec.Struct, frozen=True):
    """How many tokens a request has."""

    tokens: int

    @property
    def usage(self) -> Usage:
        """What counting costs."""
        return Usage(0, 0, 0, 0)


class Sent(msgspec.Struct, frozen=True):
    """What a request to a server says beside the conversation.

    `max_tokens` is for one that names none where the API demands it; `version` the API's, where it has versions;
    `extras` are members that this server takes beyond its API's own.
    """

    model: str
    version: str = ""
    max_tokens: int = 4096
    stream: bool = False
    extras: frozenset[str] = frozenset()


class Named(msgspec.Struct, frozen=True):
    """What an answer says beside the model's words: the model as the caller named it, and when (Unix seconds)."""

    model: str
    created: int


def cannot(path: str, problem: str) -> InvalidRequest:
    """The refusal of a field that an upstream's dialect has no words for."""
    return InvalidRequest(f"{path}: {problem}", param=path, code="unsupported_parameter")
