"""The built-in stand-in model: answers that look like a real server's and say that they are not a model's.

Pure: the same body gives the same bytes. Tokens are counted as four characters each, rounded up.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from typing import Any

import msgspec

from ebbtide.dialects.values import Wire

CREATED = 1_767_225_600
DIMENSIONS = 256
_MAX_DIMENSIONS = 4096
_MAX_CHOICES = 16
_SHOWN = 160
_WORDS_A_CHUNK = 4

_encode = msgspec.json.Encoder().encode


def answer(wire: Wire, body: bytes, model: str) -> bytes:
    """The whole answer to a request body of chat, embeddings or count_tokens, as JSON.

    Raises msgspec.DecodeError for a body that is not a JSON object.
    """
    request = msgspec.json.decode(body, type=dict[str, Any])
    if wire == "embeddings":
        return _embeddings(request, model)
    if wire == "count_tokens":
        return _encode({"input_tokens": _spent([_text(request.get("system")), *_texts(request)])})
    return _completion(request, model, _digest(body))


def chunks(body: bytes, model: str) -> list[bytes]:
    """The same chat answer as server-sent events, the usage frame where it was asked for, `[DONE]` last."""
    request = msgspec.json.decode(body, type=dict[str, Any])
    text, finish, usage = _reply(request)
    head = {"id": _digest(body), "object": "chat.completion.chunk", "created": CREATED, "model": model}
    frames = [_delta(head, {"role": "assistant", "content": ""}, None)]
    words = text.split(" ")
    for at in range(0, len(words), _WORDS_A_CHUNK):
        piece = " ".join(words[at : at + _WORDS_A_CHUNK])
        frames.append(_delta(head, {"content": piece if at == 0 else f" {piece}"}, None))
    frames.append(_delta(head, {}, finish))
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        frames.append(_frame({**head, "choices": [], "usage": usage}))
    frames.append(b"data: [DONE]\n\n")
    return frames


def _completion(request: dict[str, Any], model: str, number: str) -> bytes:
    text, finish, usage = _reply(request)
    count = request.get("n")
    count = min(count, _MAX_CHOICES) if isinstance(count, int) and count > 1 else 1
    message = {"role": "assistant", "content": text, "refusal": None}
    usage["completion_tokens"] *= count
    usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
    return _encode(
        {
            "id": number,
            "object": "chat.completion",
            "created": CREATED,
            "model": model,
            "choices": [
                {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
                for index in range(count)
            ],
            "usage": usage,
        }
    )


def _reply(request: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Text, finish reason and usage."""
    texts = _texts(request)
    last = texts[-1] if texts else ""
    shown = last if len(last) <= _SHOWN else f"{last[:_SHOWN]}…"
    words = f"[stand-in model] No language model wrote this. You sent {len(texts)} message(s), the last: {shown}".split(
        " "
    )
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    finish = "stop"
    if isinstance(limit, int) and 0 < limit < len(words):
        words, finish = words[:limit], "length"
    return " ".join(words), finish, _usage(_spent(texts), len(words))


def _texts(request: dict[str, Any]) -> list[str]:
    return [_text(message.get("content")) for message in request.get("messages") or () if isinstance(message, dict)]


def _spent(texts: list[str]) -> int:
    return sum(map(_tokens, texts))


def _usage(spent: int, made: int) -> dict[str, Any]:
    return {
        "prompt_tokens": spent,
        "completion_tokens": made,
        "total_tokens": spent + made,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _embeddings(request: dict[str, Any], model: str) -> bytes:
    inputs = _inputs(request.get("input"))
    wanted = request.get("dimensions")
    size = min(wanted, _MAX_DIMENSIONS) if type(wanted) is int and wanted > 0 else DIMENSIONS
    packed = request.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _packed(_vector(text, size)) if packed else _vector(text, size),
        }
        for index, text in enumerate(inputs)
    ]
    spent = _spent(inputs)
    usage = {"prompt_tokens": spent, "total_tokens": spent}
    return _encode({"object": "list", "data": data, "model": model, "usage": usage})


def _vector(text: str, size: int) -> list[float]:
    """A unit vector of `size` numbers drawn from the text's digest."""
    raw = hashlib.shake_256(text.encode("utf-8", "replace")).digest(2 * size)
    numbers = struct.unpack(f"<{size}h", raw)
    length = math.sqrt(sum(number * number for number in numbers)) or 1.0
    return [number / length for number in numbers]


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _inputs(value: object) -> list[str]:
    """The texts to embed; token ids stand for themselves, in writing."""
    if isinstance(value, list) and not all(isinstance(entry, int) for entry in value):
        return [entry if isinstance(entry, str) else str(entry) for entry in value]
    return [value if isinstance(value, str) else str(value)]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return " ".join(part for part in parts if isinstance(part, str))
    return ""


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _digest(body: bytes) -> str:
    return f"chatcmpl-{hashlib.blake2b(body, digest_size=12).hexdigest()}"


def _delta(head: dict[str, Any], delta: dict[str, Any], finish: str | None) -> bytes:
    return _frame({**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})


def _frame(value: object) -> bytes:
    return b"data: %b\n\n" % _encode(value)
