"""What tells one kind of upstream from another, in one table: forms it speaks, paths, header of the key, priorities.

A request in a form that the server speaks goes to it as it came, bar what is said here. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from ebbtide.catalog.model import Kind, Route
from ebbtide.dialects.targets import carried_as
from ebbtide.dialects.values import ENDPOINTS, Target, Wire, with_model
from ebbtide.dispatch.outcome import Call

ANTHROPIC_VERSION: Final = "2023-06-01"
GEMINI_VERSION: Final = "v1beta"
_OPENAI: Final = frozenset({"chat", "embeddings", "responses"})
# Of the engines, vLLM alone is asked for Responses. llama.cpp's own endpoint (tried) lets `text.format` and hosted
# tools go by and leaves out of its events what clients need; a chat completion spares the others the same doubt. Nor is
# llama.cpp asked for Messages: a stream whose first token is half a character (tried) lacks its message_start.
_ENGINE: Final[tuple[Wire, ...]] = ("chat", "embeddings", "messages")
_COUNTING: Final[tuple[Wire, ...]] = (*_ENGINE, "count_tokens")

_GEMINI_VERBS: Final[dict[Wire, str]] = {
    "gemini": "generateContent",
    "gemini_embeddings": "batchEmbedContents",
    "gemini_embed": "embedContent",
    "gemini_count": "countTokens",
}


class Priorities(msgspec.Struct, frozen=True):
    """Values of an engine's `priority`: batch work gets `batch`, and whoever names none `usual`, None for none."""

    batch: int
    usual: int | None = None


class Traits(msgspec.Struct, frozen=True):
    """A kind. `speaks`: the forms that its servers speak, the one to carry others in first.

    `inside` are those that the server itself turns into chat completions, dropping what these cannot say; `extras`
    members of chat completions that it takes beyond OpenAI's. `key_header` holds `key_prefix` and the API key;
    `counts_by`: the one name of the limit of output tokens that it reads in chat completions, where it is not both.
    """

    speaks: tuple[Wire, ...] = ("chat", "embeddings")
    inside: frozenset[Wire] = frozenset()
    extras: frozenset[str] = frozenset()
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    priorities: Priorities | None = None
    counts_by: Literal["max_tokens"] | None = None


_TOP_K: Final = frozenset({"top_k"})
_INSIDE: Final[frozenset[Wire]] = frozenset({"messages"})

KINDS: Final[dict[Kind, Traits]] = {
    "openai": Traits(inside=_INSIDE),
    # vLLM takes the lower value first; without one a request has 0.
    "vllm": Traits((*_COUNTING, "responses"), _INSIDE, _TOP_K, priorities=Priorities(batch=2**31 - 1)),
    # SGLang takes the higher value first, and puts a request without one behind all others.
    "sglang": Traits(_COUNTING, _INSIDE, _TOP_K, priorities=Priorities(batch=-(2**31), usual=0)),
    "llamacpp": Traits(("chat", "embeddings", "count_tokens"), _INSIDE, _TOP_K, counts_by="max_tokens"),
    "ollama": Traits(_ENGINE, _INSIDE, counts_by="max_tokens"),
    "anthropic": Traits(("messages", "count_tokens"), key_header="x-api-key", key_prefix=""),
    "gemini": Traits(tuple(_GEMINI_VERBS), key_header="x-goog-api-key", key_prefix=""),
    "standin": Traits(("chat", "embeddings", "count_tokens"), extras=_TOP_K),
}


def spoken(route: Route) -> Sequence[Wire]:
    """The forms that the route's server speaks."""
    return route.speaks or KINDS[route.kind].speaks


def wire_of(route: Route, target: Target) -> Wire | None:
    """The form in which the route's server is asked for a target; None where it cannot be."""
    return carried_as(target, spoken(route))


def url_of(route: Route, wire: Wire, *, stream: bool) -> str:
    """Where a request goes."""
    if wire in ("messages", "count_tokens"):
        path = "/v1/messages" if wire == "messages" else "/v1/messages/count_tokens"
        return route.base_url.removesuffix("/v1") + path
    if wire in _GEMINI_VERBS:
        verb = "streamGenerateContent?alt=sse" if stream else _GEMINI_VERBS[wire]
        return f"{_gemini_base(route)}/{quote(gemini_model(route))}:{verb}"
    return route.base_url + next(endpoint.upstream_path for endpoint in ENDPOINTS if endpoint.target == wire)


def models_url(route: Route) -> str:
    """Where the server lists its models."""
    if route.kind == "anthropic":
        return f"{route.base_url.removesuffix('/v1')}/v1/models"
    return f"{_gemini_base(route) if route.kind == 'gemini' else route.base_url}/models"


def key_header(kind: Kind, key: str | None) -> dict[str, str]:
    """The header that holds an API key, none without one."""
    traits = KINDS[kind]
    return {} if key is None else {traits.key_header: traits.key_prefix + key}


def headers_of(route: Route, key: str | None) -> dict[str, str]:
    """The headers that are the kind's own."""
    headers = key_header(route.kind, key)
    if route.kind == "anthropic":
        headers["anthropic-version"] = anthropic_version(route)
    return headers


def headers_from(call: Call, route: Route, wire: Wire) -> tuple[tuple[str, str], ...]:
    """The headers of a Messages request: the caller's own where it is in the caller's form."""
    if wire not in ("messages", "count_tokens"):
        return ()
    version = call.version if call.target == wire else None
    told = ("anthropic-version", version or anthropic_version(route))
    return (told,) if call.beta is None else (told, ("anthropic-beta", call.beta))


def anthropic_version(route: Route) -> str:
    """The version in which the gateway writes its own Messages requests."""
    return route.api_version or ANTHROPIC_VERSION


def gemini_model(route: Route) -> str:
    """The model's resource name."""
    return route.model if "/" in route.model else f"models/{route.model}"


def fitted(body: bytes, wire: Wire, call: Call, route: Route) -> bytes:
    """A body that a server gets, with what its kind asks for in this form."""
    traits = KINDS[route.kind]
    extra: dict[str, object] = {}
    if traits.counts_by is not None and b'"max_completion_tokens"' in body:
        extra = _counted_by(traits.counts_by, body)
    if route.priority_scheduling and traits.priorities is not None and wire in _OPENAI:
        extra |= _priority(traits.priorities, call, body)
    return with_model(body, route.model, **extra) if extra else body


class _Limits(msgspec.Struct):
    max_completion_tokens: int | None = None
    max_tokens: int | None = None


class _Priority(msgspec.Struct):
    priority: object = None


def _counted_by(name: str, body: bytes) -> dict[str, object]:
    limits = msgspec.json.decode(body, type=_Limits)
    if limits.max_completion_tokens is None or limits.max_tokens is not None:
        return {}
    return {name: limits.max_completion_tokens}


def _priority(priorities: Priorities, call: Call, body: bytes) -> dict[str, object]:
    if call.source == "batch":
        return {"priority": priorities.batch}
    if priorities.usual is None or msgspec.json.decode(body, type=_Priority).priority is not None:
        return {}
    return {"priority": priorities.usual}


def _gemini_base(route: Route) -> str:
    base = route.base_url
    if base.rpartition("/")[2] in ("v1", "v1beta"):
        return base
    return f"{base}/{route.api_version or GEMINI_VERSION}"
