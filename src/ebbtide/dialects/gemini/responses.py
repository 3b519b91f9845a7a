"""What generateContent and batchEmbedContents answer, read into the neutral form, and errors in Google's form.

Nothing in usage or errors can raise; only a 200 that is no answer does (ValueError).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from ebbtide.dialects.conversation import Choice, Completion, Embedded, Finish, Part, Text, Thought, ToolCall
from ebbtide.dialects.told import clean, count_of
from ebbtide.dialects.values import UpstreamError, Usage

_STOPS: Final[dict[str, Finish]] = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")

_decode = msgspec.json.Decoder().decode


class Call(msgspec.Struct):
    name: str
    id: str | None = None
    args: dict[str, object] = {}


class Said(msgspec.Struct, rename="camel"):
    """A part of an answer."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: Call | None = None


class Content(msgspec.Struct):
    parts: list[Said] = []


class Candidate(msgspec.Struct, rename="camel"):
    index: int = 0
    content: Content = msgspec.field(default_factory=Content)
    finish_reason: str | None = None


class Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class Generated(msgspec.Struct, rename="camel"):
    """An answer, whole or a streamed part of one."""

    candidates: list[Candidate] = []
    prompt_feedback: Feedback | None = None
    usage_metadata: object = None
    response_id: str | None = None
    error: object = None

    @property
    def is_blocked(self) -> bool:
        """Whether the prompt was refused: there are no candidates then."""
        return not self.candidates and self.prompt_feedback is not None and bool(self.prompt_feedback.block_reason)


class _Vector(msgspec.Struct):
    values: list[float]


class _Vectors(msgspec.Struct, rename="camel"):
    embeddings: list[_Vector]
    usage_metadata: object = None


decode_generated = msgspec.json.Decoder(Generated).decode
_decode_vectors = msgspec.json.Decoder(_Vectors).decode


class GeminiError(msgspec.Struct, frozen=True):
    """`status` where the error means another one than HTTP said; `retry_after` seconds where they were told."""

    error: UpstreamError
    status: int | None = None
    retry_after: float | None = None


def read_generated(body: bytes) -> Completion:
    """A whole answer. Raises ValueError for what is none."""
    try:
        answer = decode_generated(body)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    if answer.is_blocked:
        choices: tuple[Choice, ...] = (Choice((), "content_filter"),)
    elif answer.candidates:
        ordered = sorted(answer.candidates, key=lambda candidate: candidate.index)
        seed = answer.response_id or hashlib.blake2b(body, digest_size=12).hexdigest()
        choices = tuple(_choice(candidate, seed) for candidate in ordered)
    else:
        raise ValueError("No candidates")
    return Completion(answer.response_id or "", choices, usage_of(answer.usage_metadata))


def read_vectors(body: bytes) -> Embedded:
    """The answer of batchEmbedContents. Raises ValueError for what is none."""
    try:
        answer = _decode_vectors(body)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    usage = answer.usage_metadata
    given = count_of(usage.get("promptTokenCount")) if isinstance(usage, dict) else None
    vectors = tuple(tuple(vector.values) for vector in answer.embeddings)
    return Embedded(vectors, None if given is None else Usage(given, 0, 0, 0))


def _choice(candidate: Candidate, seed: str) -> Choice:
    parts = tuple(_parts(candidate.content.parts, f"{seed}_{candidate.index}"))
    called = any(isinstance(part, ToolCall) for part in parts)
    return Choice(parts, finish_of(candidate.finish_reason, called=called))


def _parts(said: list[Said], seed: str) -> Iterator[Part]:
    calls = 0
    for part in said:
        if part.function_call is not None:
            call = part.function_call
            yield ToolCall(call.id or call_id(seed, calls), call.name, call.args, part.thought_signature)
            calls += 1
        elif part.text is not None:
            yield Thought(part.text) if part.thought else Text(part.text)


def call_id(seed: str, number: int) -> str:
    """An id for a call that came without one: its results are told by it."""
    return f"call_{seed}_{number}"


def finish_of(reason: str | None, *, called: bool) -> Finish:
    """Why a candidate ended. All reasons but the named ones are some filter's, or an answer that went wrong."""
    finish = _STOPS.get(reason or "STOP", "content_filter")
    return "tool_calls" if finish == "stop" and called else finish


def usage_of(usage: object) -> Usage | None:
    """`usageMetadata` as tokens; None unless the prompt's count is there. Thoughts are paid as output."""
    if not isinstance(usage, dict):
        return None
    given = count_of(usage.get("promptTokenCount"))
    if given is None:
        return None
    tools = count_of(usage.get("toolUsePromptTokenCount")) or 0
    cached = count_of(usage.get("cachedContentTokenCount")) or 0
    thought = count_of(usage.get("thoughtsTokenCount")) or 0
    made = (count_of(usage.get("candidatesTokenCount")) or 0) + thought
    return Usage(given + tools, min(cached, given), made, thought)


def read_error(body: bytes) -> GeminiError | None:
    """What an error answer says; None where nothing can be read."""
    try:
        said = _decode(body)
    except (ValueError, RecursionError):
        return None
    return error_of(said)


def error_of(said: object) -> GeminiError | None:
    """The error that an object is, also within an array as streams send it; None when it is none."""
    if isinstance(said, list):
        said = said[0] if said else None
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict):
        return None
    message, details = error.get("message"), error.get("details")
    text = message if isinstance(message, str) and message.strip() else "The upstream answered with an error"
    told = UpstreamError(clean(text))
    described = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in described):
        return GeminiError(told, 401)  # told as a 400, yet it is the gateway's key
    code = error.get("code")
    return GeminiError(told, code if type(code) is int and 400 <= code <= 599 else None, _retry_after(described))


def _retry_after(details: list[dict[str, object]]) -> float | None:
    for detail in details:
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _SECONDS.fullmatch(delay)):
            return float(found[1])
    return None
