"""How a server that speaks the Responses API itself answers, for tests: it says back the last text of the input.

Written by hand from the API's reference, not by the gateway's own writer.
"""

from __future__ import annotations

from typing import Any

import msgspec

CREATED = 1_767_225_600


def answer(body: bytes) -> bytes:
    """A whole answer to a request's body."""
    request = msgspec.json.decode(body)
    return msgspec.json.encode(_response(request, "completed", text_of(request)))


def frames(body: bytes) -> list[bytes]:
    """The same as events; the third is the first that tells a word."""
    request = msgspec.json.decode(body)
    text = text_of(request)
    item = _message(text)
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response(request, "in_progress", None)},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**item["content"][0], "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": head, "logprobs": []},
        {"type": "response.output_text.delta", **place, "delta": tail, "logprobs": []},
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response(request, "completed", text)},
    ]
    return [
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]


def failed_frame(body: bytes, message: str) -> bytes:
    """The event of a response that failed."""
    response = _response(msgspec.json.decode(body), "failed", None)
    response["error"] = {"code": "server_error", "message": message}
    event = {"type": "response.failed", "sequence_number": 3, "response": response}
    return b"event: response.failed\ndata: %b\n\n" % msgspec.json.encode(event)


def text_of(request: dict[str, Any]) -> str:
    """What it answers."""
    given = request["input"]
    while not isinstance(given, str):
        given = given[-1].get("content", given[-1].get("text", given[-1].get("output", "")))
    return f"native answer to {given}"


def _message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_native", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def _response(request: dict[str, Any], status: str, text: str | None) -> dict[str, Any]:
    """`text` None while nothing has come."""
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 18,
    }
    return {
        "id": "resp_native",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "model": request["model"],
        "output": [] if text is None else [_message(text)],
        "parallel_tool_calls": True,
        "store": request.get("store", True),
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "usage": None if text is None else usage,
    }
