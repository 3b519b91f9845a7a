"""A stream of any of the three wire forms put together again: the answer that its request would have got in one piece.

A stream that was cut gives what there is of it; what is no such stream is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ebbtide.dialects.sse import Events, data_of

Chunks = Sequence[dict[str, Any]]
_decode = msgspec.json.Decoder().decode
_LABELS: Final = frozenset({"role", "id", "type", "name"})  # of what is told whole, if more than once
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def assembled(stream: bytes) -> bytes | None:
    """The answer as JSON."""
    chunks = _chunks(stream)
    told = next((chunk for chunk in chunks if "error" not in chunk), None)
    if told is None:
        return None
    kind = str(told.get("type", ""))
    assemble: Callable[[Chunks], dict[str, Any] | None] = _chat
    if kind.startswith("response."):
        assemble = _response
    elif kind == "message_start":
        assemble = _message
    answer = assemble(chunks)
    return None if answer is None else msgspec.json.encode(answer)


def _chunks(stream: bytes) -> Chunks:
    events = Events()
    chunks = []
    for event in (*events.feed(stream), events.close()):
        try:
            chunk = _decode(data_of(event))
        except (ValueError, RecursionError):
            continue  # the end mark, or the last event where the stream was cut
        if isinstance(chunk, dict):
            chunks.append(chunk)
    return chunks


def _chat(chunks: Chunks) -> dict[str, Any] | None:
    answer: dict[str, Any] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        if "error" in chunk:
            answer["error"] = chunk["error"]
            continue
        if not isinstance(chunk.get("choices"), list):
            return None
        answer |= {name: chunk[name] for name in ("id", "created", "model", "usage") if chunk.get(name) is not None}
        for choice in chunk["choices"]:
            if isinstance(choice, dict):
                _add(choices, choice)
    return answer | {"choices": [choices[index] for index in sorted(choices)]}


def _add(choices: dict[int, dict[str, Any]], choice: dict[str, Any]) -> None:
    """Add what a chunk tells of a choice to what is known of it."""
    index = choice["index"] if isinstance(choice.get("index"), int) else 0
    whole = choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
    if choice.get("finish_reason") is not None:
        whole["finish_reason"] = choice["finish_reason"]
    delta = choice.get("delta")
    if isinstance(delta, dict):
        _merge(whole["message"], delta)


def _merge(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Texts grow, numbered parts grow each by itself, anything else is what was told last."""
    for name, value in delta.items():
        before = whole.get(name)
        if isinstance(value, str) and isinstance(before, str) and name not in _LABELS:
            whole[name] = before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            _merge(before, value)
        elif isinstance(value, list):
            whole[name] = _merged(before if isinstance(before, list) else [], value)
        elif value is not None or before is None:
            whole[name] = value


def _merged(parts: list[Any], deltas: list[Any]) -> list[Any]:
    for delta in deltas:
        number = delta.get("index") if isinstance(delta, dict) else None
        known = next((one for one in parts if number is not None and one.get("index") == number), None)
        if known is None:
            parts.append(dict(delta) if isinstance(delta, dict) else delta)
        else:
            _merge(known, delta)
    return parts


def _response(chunks: Chunks) -> dict[str, Any] | None:
    """The last event holds a Responses answer whole; without it there are the items that were finished, and text."""
    answer: dict[str, Any] = {}
    items: list[Any] = []
    text = ""
    for chunk in chunks:
        kind, told = chunk.get("type"), chunk.get("response")
        if isinstance(told, dict):
            answer = told
            if kind in _ENDS:
                return answer
        elif kind == "response.output_item.done":
            items.append(chunk.get("item"))
            text = ""
        elif kind == "response.output_text.delta" and isinstance(chunk.get("delta"), str):
            text += chunk["delta"]
        elif kind == "error":
            answer = answer | {"error": chunk}
    if text:
        items.append({"type": "message", "content": [{"type": "output_text", "text": text}]})
    return answer | {"output": items}


def _message(chunks: Chunks) -> dict[str, Any] | None:
    """A Messages answer: what it began with, its blocks with what came of them, and how it ended."""
    answer: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    for chunk in chunks:
        kind, told = chunk.get("type"), chunk.get("delta")
        if kind == "message_start" and isinstance(chunk.get("message"), dict):
            answer = dict(chunk["message"])
        elif kind == "content_block_start" and isinstance(chunk.get("content_block"), dict):
            blocks[chunk.get("index")] = dict(chunk["content_block"])
        elif kind == "content_block_delta" and isinstance(told, dict):
            grown = {name: value for name, value in told.items() if name != "type"}
            _merge(blocks.setdefault(chunk.get("index"), {}), grown)
        elif kind == "message_delta" and isinstance(told, dict):
            answer |= told
            answer["usage"] = {**(answer.get("usage") or {}), **(chunk.get("usage") or {})}
        elif "error" in chunk:
            answer["error"] = chunk["error"]
    return answer | {"content": [_block(block) for block in blocks.values()]}


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """A block with the pieces of its input, if it has any, read as what they are together."""
    pieces = block.pop("partial_json", None)
    if pieces:
        try:
            block["input"] = _decode(pieces)
        except (ValueError, RecursionError):
            block["partial_json"] = pieces
    return block
