"""A chat completion's stream put together again: the answer that the same request would have got in one piece.

A stream that was cut gives what there is of it; what is not a chat completion's stream is None.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ebbtide.dialects.openai.stream import DONE
from ebbtide.dialects.sse import Events, data_of

_decode = msgspec.json.Decoder().decode
_DONE = DONE[6:].strip()


def assembled_chat(stream: bytes) -> bytes | None:
    """The answer as JSON."""
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in _chunks(stream):
        if "error" in chunk:
            answer["error"] = chunk["error"]
            continue
        if not isinstance(chunk.get("choices"), list):
            return None
        for name in ("id", "created", "model", "usage"):
            if chunk.get(name) is not None:
                answer[name] = chunk[name]
        for choice in chunk["choices"]:
            if isinstance(choice, dict):
                _add(choices, choice)
    if not answer and not choices:
        return None
    told = [choices[index] for index in sorted(choices)]
    return msgspec.json.encode({"object": "chat.completion"} | answer | {"choices": told})


def _chunks(stream: bytes) -> list[dict[str, Any]]:
    events = Events()
    chunks = []
    for event in (*events.feed(stream), events.close()):
        data = data_of(event)
        if not data or data == _DONE:
            continue
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):
            continue  # the last one, where the stream was cut
        if isinstance(chunk, dict):
            chunks.append(chunk)
    return chunks


def _add(choices: dict[int, dict[str, Any]], choice: dict[str, Any]) -> None:
    """Add what a chunk tells of a choice to what is known of it."""
    index = choice.get("index")
    whole = choices.setdefault(
        index if isinstance(index, int) else 0, {"index": index or 0, "message": {}, "finish_reason": None}
    )
    if choice.get("finish_reason") is not None:
        whole["finish_reason"] = choice["finish_reason"]
    delta = choice.get("delta")
    if isinstance(delta, dict):
        _merge(whole["message"], delta)


def _merge(whole: dict[str, Any], delta: dict[str, Any]) -> None:
    """Texts grow, numbered parts grow each by itself, anything else is what was told last."""
    for name, value in delta.items():
        before = whole.get(name)
        if isinstance(value, str) and isinstance(before, str) and name not in ("role", "id", "type", "name"):
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
        known = next((part for part in parts if number is not None and part.get("index") == number), None)
        if known is None:
            parts.append(dict(delta) if isinstance(delta, dict) else delta)
        else:
            _merge(known, delta)
    return parts
