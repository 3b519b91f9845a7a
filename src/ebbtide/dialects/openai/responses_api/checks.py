"""What a Responses request's body must be; anything else in it passes through. Batched ones keep the same rules.

Whatever names something kept, or asks for keeping, is refused. A batch's requests are independent and bring all they
need, so hosted tools and files are refused there too.

Published at https://platform.openai.com/docs/api-reference/responses/create; names as in the official SDK's types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Annotated, Final

import msgspec

from ebbtide.dialects.fields import JsonObject, check_name, check_size, convert, invalid
from ebbtide.dialects.openai.bodies import refuse_queueing
from ebbtide.dialects.openai.responses_api.kept import KEPT, refuse_kept, unsupported
from ebbtide.dialects.values import BOM, MAX_MODEL, MAX_TOKENS, STANDARD, BatchBody, Body, Limits, Terms, check_object

_PAIRS, _KEY, _VALUE = 16, 64, 512

_OWN_TOOLS: Final = frozenset({"function", "custom"})  # run by the caller; all others are the server's
_PLAIN_ITEMS: Final = frozenset(
    {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning"}
)


class ResponsesStreamOptions(msgspec.Struct, gc=False):
    include_obfuscation: bool | None = None


class ResponsesTool(msgspec.Struct, gc=False):
    type: str


class Responses(msgspec.Struct, gc=False):
    """`model` and `input` must be there; the members that follow are held to their types."""

    model: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]
    input: str | list[dict[str, object]]
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)] | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: ResponsesStreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: JsonObject | None = None
    reasoning: JsonObject | None = None
    tools: list[ResponsesTool] | None = None


def parse_body(raw: bytes, terms: Terms = STANDARD) -> Body:
    """Check an interactive request's body. Raises InvalidRequest naming the field. A leading BOM is stripped."""
    raw = raw.removeprefix(BOM)
    body = check_object(raw)
    request = check_responses(body, terms.limits)
    return Body(request.model, raw, stream=bool(request.stream), max_tokens=request.max_output_tokens)


def check_batch_body(body: dict[str, object], terms: Terms = STANDARD) -> BatchBody:
    """Check the decoded body of a batched request. Raises InvalidRequest."""
    request = check_responses(body, terms.limits)
    refuse_queueing(body)
    check_independent(body)
    return BatchBody(request.model, request.max_output_tokens)


def check_responses(body: dict[str, object], limits: Limits = STANDARD.limits) -> Responses:
    """The checked request. Raises InvalidRequest naming the field by its path."""
    refuse_kept(body)
    request = convert(body, Responses)
    check_name(request.model)
    if request.metadata is not None:
        _check_metadata(request.metadata)
    check_size("tools", len(request.tools or ()), limits.tools)
    if not isinstance(request.input, str):
        _check_items(request.input, limits)
    return request


def check_independent(body: dict[str, object]) -> None:
    """What a batch refuses beside all that check_responses does."""
    tools, items = body.get("tools"), body.get("input")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if tool["type"] not in _OWN_TOOLS:
            raise unsupported(f"tools[{index}].type", "hosted tools are not allowed in a batch")
    for path, item in _items(items if isinstance(items, list) else ()):
        if _kind(item) not in _PLAIN_ITEMS:
            raise unsupported(f"{path}.type", "calls of hosted tools are not allowed in a batch")
        for place, part in _parts(path, item):
            if part.get("type") == "input_file":
                raise unsupported(f"{place}.type", "file inputs are not allowed in a batch")


def _check_items(items: list[dict[str, object]], limits: Limits) -> None:
    if not items:
        raise invalid("input", "must not be empty")
    check_size("input", len(items), limits.messages)
    parts = 0
    for path, item in _items(items):
        kind = _kind(item)
        if kind == "item_reference":
            raise unsupported(f"{path}.type", KEPT)
        if kind == "message":
            _check_message(path, item)
        parts += sum(1 for _ in _parts(path, item))
    check_size("input[].content", parts, limits.content_parts)


def _check_message(path: str, item: Mapping[str, object]) -> None:
    if not isinstance(item.get("role"), str):
        raise invalid(f"{path}.role", "required: a string")
    if not isinstance(item.get("content"), (str, list)):
        raise invalid(f"{path}.content", "required: a string or an array")


def _items(items: list[dict[str, object]] | tuple[()]) -> Iterator[tuple[str, dict[str, object]]]:
    for index, item in enumerate(items):
        path = f"input[{index}]"
        if not isinstance(item.get("type"), (str, NoneType)):
            raise invalid(f"{path}.type", "expected string")
        yield path, item


def _kind(item: Mapping[str, object]) -> object:
    """An item's type; a message may leave it out, and a reference too, which has nothing but an id."""
    if (kind := item.get("type")) is not None:
        return kind
    return "item_reference" if "role" not in item and "id" in item else "message"


def _parts(path: str, item: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """The content of a message, or what a tool gave back, where it is made of parts."""
    for field in ("content", "output"):
        given = item.get(field)
        if not isinstance(given, list):
            continue
        for index, part in enumerate(given):
            place = f"{path}.{field}[{index}]"
            if not isinstance(part, dict):
                raise invalid(place, "expected object")
            yield place, part


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > _PAIRS:
        raise invalid("metadata", f"at most {_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > _KEY or len(value) > _VALUE:
            raise invalid("metadata", f"keys are at most {_KEY} characters long, values {_VALUE}")
