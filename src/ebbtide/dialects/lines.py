"""The body of a stored request line, in whichever dialect the line was written."""

from __future__ import annotations

import msgspec

from ebbtide.dialects.values import ENDPOINT_FOR, Target, members_replaced

_encode = msgspec.json.Encoder().encode


class _Line(msgspec.Struct, gc=False):
    """OpenAI's lines hold a body, Gemini's a request that names no model and perhaps a key."""

    body: msgspec.Raw = msgspec.Raw()
    request: msgspec.Raw = msgspec.Raw()
    key: str = ""


_decode_line = msgspec.json.Decoder(_Line).decode


def line_body(raw: bytes | memoryview | msgspec.Raw, model: str) -> bytes:
    """The body of a line that was checked before, its bytes untouched. `model` is for one that names none."""
    line = _decode_line(raw)
    return bytes(line.body) or members_replaced(bytes(line.request), {"model": model})


def common_line(raw: memoryview, target: Target, model: str) -> memoryview:
    """A checked line as all batches but those of Gemini's files have it."""
    line = _decode_line(raw)
    if bytes(line.body):
        return raw
    body = msgspec.Raw(members_replaced(bytes(line.request), {"model": model}))
    told = {"custom_id": line.key, "method": "POST", "url": ENDPOINT_FOR[target].url, "body": body}
    return memoryview(_encode(told))
