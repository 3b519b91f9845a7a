"""What tells one kind of upstream from another, in one table: language, paths, header of the key, priorities.

All but anthropic and gemini speak OpenAI's language, so a body goes to them as it came, bar what is said here. No I/O.
"""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import quote

import msgspec

from ebbtide.catalog.model import Kind, Route
from ebbtide.dialects.openai.requests import for_upstream, with_model
from ebbtide.dialects.values import ENDPOINT_FOR, Body, Target
from ebbtide.dispatch.outcome import Call

Language = Literal["openai", "anthropic", "gemini"]

ANTHROPIC_VERSION: Final = "2023-06-01"
GEMINI_VERSION: Final = "v1beta"


class Priorities(msgspec.Struct, frozen=True):
    """Values of an engine's `priority`: batch work gets `batch`, and whoever names none `usual`, None for none."""

    batch: int
    usual: int | None = None


class Traits(msgspec.Struct, frozen=True):
    """A kind. `key_header` holds `key_prefix` and the API key; `counts_by`: the one name of the limit of output tokens
    that the server reads, where it does not read both.
    """

    language: Language = "openai"
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    priorities: Priorities | None = None
    counts_by: Literal["max_tokens"] | None = None


KINDS: Final[dict[Kind, Traits]] = {
    "openai": Traits(),
    # vLLM takes the lower value first; without one a request has 0.
    "vllm": Traits(priorities=Priorities(batch=2**31 - 1)),
    # SGLang takes the higher value first, and puts a request without one behind all others.
    "sglang": Traits(priorities=Priorities(batch=-(2**31), usual=0)),
    "llamacpp": Traits(counts_by="max_tokens"),
    "ollama": Traits(counts_by="max_tokens"),
    "anthropic": Traits("anthropic", "x-api-key", ""),
    "gemini": Traits("gemini", "x-goog-api-key", ""),
    "standin": Traits(),
}


def is_translated(route: Route) -> bool:
    """Whether the route's server speaks another language than the gateway's callers."""
    return KINDS[route.kind].language != "openai"


def url_of(route: Route, target: Target, *, stream: bool) -> str:
    """Where a request goes."""
    language = KINDS[route.kind].language
    if language == "anthropic":
        return f"{route.base_url.removesuffix('/v1')}/v1/messages"
    if language == "gemini":
        verb = "batchEmbedContents" if target == "embeddings" else "generateContent"
        verb = "streamGenerateContent?alt=sse" if stream else verb
        return f"{_gemini_base(route)}/{quote(gemini_model(route))}:{verb}"
    return route.base_url + ENDPOINT_FOR[target].upstream_path


def models_url(route: Route) -> str:
    """Where the server lists its models."""
    language = KINDS[route.kind].language
    if language == "anthropic":
        return f"{route.base_url.removesuffix('/v1')}/v1/models"
    return f"{_gemini_base(route) if language == 'gemini' else route.base_url}/models"


def headers_of(route: Route, key: str | None) -> dict[str, str]:
    """The headers that are the kind's own."""
    traits = KINDS[route.kind]
    headers = {} if key is None else {traits.key_header: traits.key_prefix + key}
    if traits.language == "anthropic":
        headers["anthropic-version"] = anthropic_version(route)
    return headers


def anthropic_version(route: Route) -> str:
    return route.api_version or ANTHROPIC_VERSION


def gemini_model(route: Route) -> str:
    """The model's resource name."""
    return route.model if "/" in route.model else f"models/{route.model}"


def plain_body(call: Call, route: Route, *, stream: bool) -> bytes:
    """The body for a server that speaks OpenAI's language."""
    traits = KINDS[route.kind]
    extra: dict[str, object] = {}
    if traits.counts_by is not None and b'"max_completion_tokens"' in call.body:
        extra = _counted_by(traits.counts_by, call.body)
    if route.priority_scheduling and traits.priorities is not None:
        extra |= _priority(traits.priorities, call)
    if not stream:
        return with_model(call.body, route.model, **extra)
    body = call.body if not extra else with_model(call.body, route.model, **extra)
    return for_upstream(Body(call.requested, body, stream=True), route.model)


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


def _priority(priorities: Priorities, call: Call) -> dict[str, object]:
    if call.source == "batch":
        return {"priority": priorities.batch}
    if priorities.usual is None or msgspec.json.decode(call.body, type=_Priority).priority is not None:
        return {}
    return {"priority": priorities.usual}


def _gemini_base(route: Route) -> str:
    base = route.base_url
    if base.rpartition("/")[2] in ("v1", "v1beta"):
        return base
    return f"{base}/{route.api_version or GEMINI_VERSION}"
