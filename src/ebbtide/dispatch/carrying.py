"""Which fields of a request a model's routes for batch work cannot carry: found by trying, so it is never out of date.

Each field is tried with a value that makes use of it, on what would be sent to each route's server. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from ebbtide.catalog.model import Model, Route
from ebbtide.dialects.values import Target
from ebbtide.dispatch.outcome import Call
from ebbtide.dispatch.translation import body_for
from ebbtide.errors import InvalidRequest

_MESSAGE: Final = {"role": "user", "content": "Hello"}
_TOOL: Final = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_SCHEMA: Final = {"name": "answer", "schema": {"type": "object"}, "strict": True}
_PLAIN: Final[Mapping[str, Mapping[str, object]]] = {
    "chat": {"messages": [_MESSAGE]},
    "embeddings": {"input": "Hello"},
}
_USES: Final[Mapping[str, Mapping[str, Mapping[str, object]]]] = {
    "chat": {
        "frequency_penalty": {"frequency_penalty": 0.5},
        "logit_bias": {"logit_bias": {"1": 1}},
        "logprobs": {"logprobs": True},
        "max_completion_tokens": {"max_completion_tokens": 8},
        "n": {"n": 2},
        "parallel_tool_calls": {"tools": [_TOOL], "parallel_tool_calls": False},
        "presence_penalty": {"presence_penalty": 0.5},
        "reasoning_effort": {"reasoning_effort": "low"},
        "response_format.json_object": {"response_format": {"type": "json_object"}},
        "response_format.json_schema": {"response_format": {"type": "json_schema", "json_schema": _SCHEMA}},
        "seed": {"seed": 1},
        "stop": {"stop": ["\n"]},
        "temperature": {"temperature": 0.5},
        "tools": {"tools": [_TOOL]},
        "top_k": {"top_k": 5},
        "top_p": {"top_p": 0.5},
        "user": {"user": "somebody"},
    },
    "embeddings": {
        "dimensions": {"dimensions": 8},
        "encoding_format": {"encoding_format": "base64"},
        "user": {"user": "somebody"},
    },
}
_UNKNOWN: Final = {"a_field_that_nobody_knows": 1}


@dataclass(frozen=True, slots=True)
class Refused:
    """`fields` that no route can carry; `others`: nor does any carry a field that the gateway does not know."""

    fields: tuple[str, ...] = ()
    others: bool = False


@lru_cache(maxsize=1024)
def refused_in_batches(model: Model, target: Target) -> Refused:
    """Nothing where one route passes on whatever it is given, or where none may be used at all."""
    routes = [route for route in model.routes if route.batch_allowed]
    if target not in _USES or not routes or any(_carries(model, target, route, _UNKNOWN) for route in routes):
        return Refused()
    fields = (
        field
        for field, use in _USES[target].items()
        if not any(_carries(model, target, route, use) for route in routes)
    )
    return Refused(tuple(fields), others=True)


def _carries(model: Model, target: Target, route: Route, use: Mapping[str, object]) -> bool:
    body = msgspec.json.encode({"model": model.id, **_PLAIN[target], **use})
    try:
        body_for(Call(target, model, body, model.id, "batch"), route, stream=False)
    except InvalidRequest:
        return False
    return True
