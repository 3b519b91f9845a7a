"""What a Messages request's body must be, under each version of the API; anything else in it passes through.

The same rules hold for interactive and batched requests; a batch refuses more: what would run, or lie, on a server of
the provider's. Errors name the field by its path and never quote what a prompt holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec

from ebbtide.dialects.fields import check_name, check_size, convert, invalid, word_of
from ebbtide.dialects.values import BOM, MAX_MODEL, MAX_TOKENS, BatchBody, Body, Limits, Terms, check_object

VERSIONS: Final = ("2023-06-01", "2026-10-21")
NARROWED_IN: Final = "2026-10-21"
"""The version that took away sampling, documents in an assistant's turns and citations on a user's text."""

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MODEL)]
_Block = dict[str, object]

_SAMPLING: Final = ("temperature", "top_p", "top_k")
# Blocks that stand for work on the client's side, or for none; all others are the provider's.
_OWN_BLOCKS: Final = frozenset(
    {
        "text",
        "image",
        "document",
        "search_result",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "tool_result",
    }
)
# Tools that the client carries out: its own, and those that the provider only describes.
_OWN_TOOLS: Final = ("custom", "bash_", "text_editor_", "memory_", "computer_", "browser_toolset_")


class MessageParam(msgspec.Struct, gc=False):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block]


class Messages(msgspec.Struct, gc=False):
    model: _Name
    max_tokens: _Count
    messages: Annotated[list[MessageParam], msgspec.Meta(min_length=1)]
    system: str | list[_Block] | None = None
    tools: list[_Block] | None = None
    tool_choice: dict[str, object] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: dict[str, object] | None = None


class CountTokens(msgspec.Struct, gc=False):
    model: _Name
    messages: Annotated[list[MessageParam], msgspec.Meta(min_length=1)]
    system: str | list[_Block] | None = None
    tools: list[_Block] | None = None


def parse_body(raw: bytes, terms: Terms) -> Body:
    """Check an interactive request's body. A leading BOM is stripped. Raises InvalidRequest naming the field."""
    raw = raw.removeprefix(BOM)
    body = check_object(raw)
    checked = check_messages(body, terms)
    return Body(
        model=checked.model,
        raw=raw,
        stream=bool(checked.stream),
        max_tokens=checked.max_tokens,
        asks_usage=True,
    )


def parse_count(raw: bytes, terms: Terms) -> Body:
    """Check the body of a request to count its tokens; as parse_body."""
    raw = raw.removeprefix(BOM)
    body = check_object(raw)
    checked = convert(body, CountTokens)
    check_name(checked.model)
    _check_sizes(checked, None, terms.limits)
    _check_version(body, checked.messages, terms.version)
    _refuse_stored(body)
    return Body(model=checked.model, raw=raw)


def check_batch_body(body: dict[str, object], terms: Terms) -> BatchBody:
    """Check the decoded body of a batched request. Raises InvalidRequest."""
    checked = check_messages(body, terms)
    if checked.stream:
        raise invalid("stream", "must not be true in a batch")
    for field in ("anthropic_version", "anthropic_beta", "betas", "mcp_servers", "background", "priority"):
        if body.get(field) not in (None, []):
            raise invalid(field, "not allowed in a batch")
    if body.get("service_tier") not in (None, "auto", "standard_only"):
        raise invalid("service_tier", "must be auto or standard_only in a batch")
    for index, tool in enumerate(checked.tools or ()):
        kind = tool.get("type")
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_OWN_TOOLS)):
            raise invalid(f"tools[{index}].type", "server tools are not allowed in a batch")
    for path, block in _blocks(body):
        if word_of(block.get("type")) not in _OWN_BLOCKS:
            raise invalid(f"{path}.type", "blocks of server tools and containers are not allowed in a batch")
    return BatchBody(checked.model, checked.max_tokens)


def check_messages(body: dict[str, object], terms: Terms) -> Messages:
    """What the endpoint asks of every request. Raises InvalidRequest."""
    checked = convert(body, Messages)
    check_name(checked.model)
    _check_sizes(checked, checked.stop_sequences, terms.limits)
    _check_version(body, checked.messages, terms.version)
    _refuse_stored(body)
    return checked


def _check_sizes(checked: Messages | CountTokens, stops: Sequence[str] | None, limits: Limits) -> None:
    check_size("messages", len(checked.messages), limits.messages)
    parts = sum(len(message.content) for message in checked.messages if type(message.content) is list)
    check_size("messages[].content", parts, limits.content_parts)
    if isinstance(checked.system, list):
        check_size("system", len(checked.system), limits.content_parts)
    check_size("tools", len(checked.tools or ()), limits.tools)
    check_size("stop_sequences", len(stops or ()), limits.stop_sequences)


def _check_version(body: Mapping[str, object], messages: Sequence[MessageParam], version: str | None) -> None:
    if (version or VERSIONS[0]) < NARROWED_IN:
        return
    for field in _SAMPLING:
        if body.get(field) is not None:
            raise invalid(field, f"not a parameter of anthropic-version {version}")
    for index, message in enumerate(messages):
        for at, block in enumerate(message.content if isinstance(message.content, list) else ()):
            path = f"messages[{index}].content[{at}]"
            if message.role == "assistant" and block.get("type") == "document":
                raise invalid(path, f"no document in an assistant's message under anthropic-version {version}")
            if message.role == "user" and block.get("type") == "text" and block.get("citations") not in (None, []):
                raise invalid(f"{path}.citations", f"not allowed on a user's text under anthropic-version {version}")


def _refuse_stored(body: Mapping[str, object]) -> None:
    """What lies in an account at the provider is the operator's, not the caller's."""
    if body.get("container") is not None:
        raise invalid("container", "containers are not supported")
    for path, block in _blocks(body):
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") == "file":
            raise invalid(f"{path}.source", "sources of the Files API are not supported")
        if block.get("type") == "container_upload":
            raise invalid(f"{path}.type", "containers are not supported")


def _blocks(body: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Every content block of a checked body with its path, those inside a tool's result and a document too."""
    yield from _listed("system", body.get("system"))
    messages = body["messages"]
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        yield from _listed(f"messages[{index}].content", message["content"])


def _listed(path: str, content: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        place = f"{path}[{index}]"
        yield place, block
        if block.get("type") == "tool_result":
            yield from _listed(f"{place}.content", block.get("content"))
        source = block.get("source")
        if isinstance(source, dict):
            yield from _listed(f"{place}.source.content", source.get("content"))
