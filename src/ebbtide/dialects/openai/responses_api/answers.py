"""The Response object written from the neutral form: a whole answer, and the head that events of a stream show.

It brings back what the request said, with the API's defaults where it said nothing, and says `store: false`: the
gateway keeps no responses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from ebbtide.dialects.conversation import Completion, Finish, Named, Part, Text, Thought, ToolCall
from ebbtide.dialects.openai.responses_api.sealed import seal
from ebbtide.dialects.statuses import INTERNAL, is_internal, status_of
from ebbtide.dialects.values import Usage, one_line
from ebbtide.errors import EbbtideError

_encode = msgspec.json.Encoder().encode

INCOMPLETE: Final[dict[Finish, str]] = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Echo(msgspec.Struct):
    """What a request said of itself, in the order a Response tells it."""

    instructions: Any = None
    max_output_tokens: Any = None
    max_tool_calls: Any = None
    metadata: Any = None
    parallel_tool_calls: Any = None
    prompt_cache_key: Any = None
    reasoning: Any = None
    safety_identifier: Any = None
    service_tier: Any = None
    temperature: Any = None
    text: Any = None
    tool_choice: Any = None
    tools: Any = None
    top_logprobs: Any = None
    top_p: Any = None
    truncation: Any = None
    user: Any = None


_DEFAULTS: Final[dict[str, object]] = {
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "truncation": "disabled",
}
_decode_echo = msgspec.json.Decoder(Echo).decode


class Asked(msgspec.Struct, frozen=True):
    """Who is answered: the model as the caller named it, when (Unix seconds), and what the request said."""

    named: Named
    said: dict[str, object]


def asked(body: bytes, named: Named) -> Asked:
    """`body` is a checked request."""
    said = msgspec.structs.asdict(_decode_echo(body))
    return Asked(named, {name: _DEFAULTS.get(name) if value is None else value for name, value in said.items()})


def write_response(answer: Completion, asked: Asked) -> bytes:
    """The answer as one line of JSON. One choice is all a Response has."""
    choice = answer.choices[0] if answer.choices else None
    finish: Finish = "stop" if choice is None else choice.finish
    names = Names(answer.id)
    output = list(_items(() if choice is None else choice.parts, names, finish))
    return one_line(_encode(response(asked, names.response, output=output, usage=answer.usage, **ended(finish))))


def response(asked: Asked, name: str, **more: object) -> dict[str, object]:
    """The object; `more` are members that come to be as it goes on: status, output, usage, error and the like."""
    usage = more.pop("usage", None)
    return {
        "id": name,
        "object": "response",
        "created_at": asked.named.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": asked.named.model,
        "output": [],
        "previous_response_id": None,
        "store": False,
        **asked.said,
        "usage": usage_of(usage) if isinstance(usage, Usage) else None,
        **more,
    }


def ended(finish: Finish) -> dict[str, object]:
    """The status that an end has, and why it is not `completed`."""
    reason = INCOMPLETE.get(finish)
    if reason is None:
        return {"status": "completed"}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def failed(error: EbbtideError) -> dict[str, object]:
    """The status and error of a response that broke; the API names few codes."""
    status = status_of(error)
    code = "rate_limit_exceeded" if status == 429 else "invalid_prompt" if status < 500 else "server_error"
    message = INTERNAL if is_internal(error) else error.message
    return {"status": "failed", "error": {"code": code, "message": message}}


def usage_of(usage: Usage) -> dict[str, object]:
    """`usage` as Responses tell it."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


class Names:
    """Ids of a response and its items, made of the id that the upstream gave its answer."""

    def __init__(self, seed: str) -> None:
        self._base = hashlib.blake2b(seed.encode("utf-8", "replace"), digest_size=16).hexdigest()
        self._count = 0

    @property
    def response(self) -> str:
        return f"resp_{self._base}"

    def item(self, prefix: str) -> str:
        """The id of the next item."""
        self._count += 1
        return f"{prefix}_{self._base}{self._count:02x}"


def message_item(name: str, text: str | None, status: str) -> dict[str, object]:
    """`text` None: its content is still to come."""
    content = [] if text is None else [text_part(text)]
    return {"id": name, "type": "message", "status": status, "role": "assistant", "content": content}


def text_part(text: str) -> dict[str, object]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_item(name: str, call: ToolCall, arguments: str, status: str) -> dict[str, object]:
    """`arguments` as JSON text."""
    item: dict[str, object] = {
        "id": name,
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }
    if call.signature is not None:
        item["extra_content"] = {"google": {"thought_signature": call.signature}}
    return item


def reasoning_item(name: str, thought: Thought) -> dict[str, object]:
    content = [{"type": "reasoning_text", "text": thought.text}] if thought.text else []
    return {"id": name, "type": "reasoning", "summary": [], "content": content, "encrypted_content": seal(thought)}


def _items(parts: Sequence[Part], names: Names, finish: Finish) -> Iterator[dict[str, object]]:
    """Texts that follow one another are one message."""
    status = "completed" if INCOMPLETE.get(finish) is None else "incomplete"
    for kind, group in groupby(parts, key=type):
        if kind is Text:
            text = "".join(part.text for part in group if isinstance(part, Text))
            yield message_item(names.item("msg"), text, status)
            continue
        for part in group:
            if isinstance(part, ToolCall):
                arguments = _encode(part.arguments).decode() if part.written is None else part.written
                yield call_item(names.item("fc"), part, arguments, status)
            elif isinstance(part, Thought):
                yield reasoning_item(names.item("rs"), part)
