"""What every dialect speaks about: targets, tokens, bodies, answers; and the one way JSON from outside is checked.

JSON is checked by one full pass: members that are skipped or kept raw escape msgspec's checks of UTF-8 and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ebbtide.errors import InvalidRequest

Target = Literal[
    "chat",
    "embeddings",
    "responses",
    "messages",
    "count_tokens",
    "gemini",
    "gemini_count",
    "gemini_embed",
    "gemini_embeddings",
]
Wire = Target
"""What a server may speak."""
CALLED: dict[Target, str] = {
    "chat": "chat completions",
    "gemini": "generateContent",
    "gemini_count": "countTokens",
    "gemini_embed": "embedContent",
    "gemini_embeddings": "batchEmbedContents",
}
"""What callers call a target, where that is another word."""

MAX_DEPTH = 64
MAX_VALUES = 1_000_000
REQUEST_DEPTH = MAX_DEPTH + 1  # of a batch's request: its body may nest as deep as it may when sent on its own
MAX_TOKENS = 2**31 - 1
MAX_MODEL = 256
BOM = b"\xef\xbb\xbf"

_CROWDABLE = 1024 * 1024  # bytes up to which a crowd of values stays small enough
_LINE_BREAKS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))

_decode = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _Named(msgspec.Struct, gc=False):
    model: str


_decode_named = msgspec.json.Decoder(_Named).decode


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """One endpoint that is served, here and at upstreams, and what type of model answers it."""

    target: Target
    url: str
    upstream_path: str
    model_type: Literal["chat", "embedding"]


ENDPOINTS = (
    Endpoint("chat", "/v1/chat/completions", "/chat/completions", "chat"),
    Endpoint("embeddings", "/v1/embeddings", "/embeddings", "embedding"),
    Endpoint("responses", "/v1/responses", "/responses", "chat"),
    Endpoint("messages", "/v1/messages", "/messages", "chat"),
    Endpoint("gemini", "/v1beta/models:generateContent", ":generateContent", "chat"),
    Endpoint("gemini_embed", "/v1beta/models:embedContent", ":embedContent", "embedding"),
)
ENDPOINT_AT = {endpoint.url: endpoint for endpoint in ENDPOINTS}
ENDPOINT_FOR = {endpoint.target: endpoint for endpoint in ENDPOINTS}


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one answer. `cached_tokens` (read from a cache) and `cache_write_tokens` are part of `input_tokens`,
    `reasoning_tokens` of `output_tokens`.
    """

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cache_write_tokens: int = 0


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """The tokens of several answers together."""
    totals = [0] * len(Usage.__struct_fields__)
    for usage in usages:
        for at, tokens in enumerate(msgspec.structs.astuple(usage)):
            totals[at] += tokens
    return Usage(*totals)


class Limits(msgspec.Struct, frozen=True, gc=False):
    """How much one request may hold; content parts are counted over all its messages."""

    messages: int = 10_000
    content_parts: int = 10_000
    tools: int = 512
    stop_sequences: int = 64


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What a body is checked under: the limits in force, and the API version where its dialect has versions."""

    limits: Limits = Limits()
    version: str | None = None


STANDARD = Terms()


class Body(msgspec.Struct, frozen=True, gc=False):
    """A checked interactive request: what the gateway needs to know of it, and its bytes.

    `max_tokens` is the most output the request allows, None where it does not say; `asks_usage` whether the caller
    wants the stream's usage frame.
    """

    model: str
    raw: bytes
    stream: bool = False
    max_tokens: int | None = None
    asks_usage: bool = False


class BatchBody(msgspec.Struct, frozen=True, gc=False):
    """What the gateway needs to know of a checked batched request; `max_tokens` None where it does not say."""

    model: str
    max_tokens: int | None = None


class UpstreamError(msgspec.Struct, frozen=True, gc=False):
    """What an upstream said went wrong, in whichever shape it said it. `message` has no NUL and is bounded."""

    message: str
    code: str | None = None
    param: str | None = None


class Told(msgspec.Struct, frozen=True):
    """An upstream's error, the HTTP status it amounts to, and seconds to wait where its body told them."""

    error: UpstreamError
    status: int
    retry_after: float | None = None


class MalformedAnswer(ValueError):
    """An upstream's 200 that is not a JSON object in UTF-8. Sending the request again would most likely not help."""


class UnsayableAnswer(ValueError):
    """A good answer that the caller's form has no place for. It is the model's doing, not its server's."""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An upstream's 200, ready to be stored or sent: one line of JSON naming the model as the caller did.

    `usage` is None when the upstream did not tell it (the cost is then unknown); `error` is set when the body is
    an error in spite of its status.
    """

    body: bytes
    usage: Usage | None
    error: UpstreamError | None = None


def _problem(error: ValueError, data: bytes) -> str:
    """The parser's complaint in words that help: it calls a lone surrogate truncated too."""
    if not data.strip():
        return "it is empty"
    text = str(error).partition(" - at ")[0]
    if text == "Input data was truncated" and data.rstrip().endswith((b"}", b"]")):
        return "it ends too early, or holds half of a surrogate pair"
    return text


def check_json(raw: bytes | memoryview | msgspec.Raw, *, max_depth: int = MAX_DEPTH) -> object:
    """Decode `raw` whole: UTF-8, finite numbers, integers Python reads, `max_depth` levels of arrays and objects, and
    no more than a million values.

    Raises InvalidRequest; its message tells the place, never the content. Of equal keys the last one counts.
    """
    data = raw if isinstance(raw, bytes) else bytes(raw)
    if is_crowded(data):
        raise InvalidRequest(f"Holds too much: at most {MAX_VALUES:,} values, arrays and objects")
    try:
        value: object = _decode(data)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:  # msgspec's DecodeError is one
        raise InvalidRequest(f"Not parseable as valid JSON: {_problem(error, data)}") from None
    # Fewer brackets than levels allowed cannot nest deeper; most bodies end here.
    if data.count(b"{") + data.count(b"[") > max_depth and _deeper_than(value, max_depth):
        raise too_deep()
    return value


def check_object(raw: bytes) -> dict[str, object]:
    """Decode a body whole, as check_json does. Raises InvalidRequest, for what is no object too."""
    body = check_json(raw)
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object")
    return body


def is_crowded(data: bytes) -> bool:
    """Whether JSON holds so many values that decoding it would take many times its bytes.

    Counts the commas and opening brackets outside strings; most bodies have too few even with those inside.
    """
    if len(data) <= _CROWDABLE or _count_values(data) <= MAX_VALUES:
        return False
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    count, in_string = 0, False
    for at in range(0, len(bare), _CROWDABLE):
        pieces = bare[at : at + _CROWDABLE].split(b'"')
        count += _count_values(b"".join(pieces[in_string::2]))
        if count > MAX_VALUES:
            return True
        in_string ^= len(pieces) % 2 == 0
    return False


def _count_values(data: bytes) -> int:
    return data.count(b",") + data.count(b"{") + data.count(b"[")


def too_deep() -> InvalidRequest:
    """The refusal of JSON nested too deeply; it tells the levels of a body, whatever the body stood in."""
    return InvalidRequest(f"Nested too deeply: at most {MAX_DEPTH} levels of arrays and objects")


def members_replaced(raw: bytes, changes: dict[str, object]) -> bytes:
    """The object `raw` with members set to `changes`; the bytes of every other member's value stay as they are.

    `raw` has passed check_json and is an object. Of equal keys only the last one is kept.
    """
    return _encode({**_decode_members(raw), **changes})


def with_model(raw: bytes, model: str, **extra: object) -> bytes:
    """The checked body `raw` with `model`, and `extra` top-level members, replaced or added.

    Every other member's value keeps its bytes. Nothing to change: `raw` itself.
    """
    if not extra and _names_only(raw, model):
        return raw
    return members_replaced(raw, {"model": model, **extra})


def named_model(raw: bytes) -> str:
    """The model that a checked body names."""
    return _decode_named(raw).model


def _names_only(raw: bytes, model: str) -> bool:
    """Whether `raw` names `model` and surely has no second `model` key, which an upstream might read instead."""
    return named_model(raw) == model and raw.count(b'"model"') == 1 and b"\\u" not in raw


def one_line(json: bytes) -> bytes:
    """Checked JSON on one line, with the characters escaped at which `splitlines()` of common languages breaks.

    Those are U+2028, U+2029 and U+0085 (JSON itself forbids the others unescaped); they can only stand in strings.
    """
    if b"\n" in json or b"\r" in json:
        json = msgspec.json.format(json, indent=-1)
    if json.isascii():
        return json
    for character, escape in _LINE_BREAKS:
        json = json.replace(character, escape)
    return json


def _deeper_than(value: object, max_depth: int) -> bool:
    level = [value]
    for _ in range(max_depth):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return False
    return any(isinstance(value, (dict, list)) for value in level)


def _containers(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if type(inner) in (dict, list)]
    if isinstance(value, list):
        return [inner for inner in value if type(inner) in (dict, list)]
    return []
