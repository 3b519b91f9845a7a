"""An embeddings request written from the neutral form, and its answer read into it."""

from __future__ import annotations

import msgspec

from ebbtide.dialects.conversation import Embed, Embedded, Sent
from ebbtide.dialects.openai.responses import usage_of


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _Answer(msgspec.Struct):
    data: list[_Vector]
    usage: object = None


_decode_answer = msgspec.json.Decoder(_Answer).decode


def write_embed(asked: Embed, sent: Sent) -> bytes:
    """The request's body; vectors come as plain numbers."""
    body: dict[str, object] = {"model": sent.model, "input": asked.texts, "encoding_format": "float"}
    return msgspec.json.encode(body if asked.dimensions is None else {**body, "dimensions": asked.dimensions})


def read_embedded(body: bytes) -> Embedded:
    """A whole answer. Raises ValueError for what is none."""
    try:
        answer = _decode_answer(body)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    ordered = sorted(answer.data, key=lambda vector: vector.index)
    return Embedded(tuple(tuple(vector.embedding) for vector in ordered), usage_of("embeddings", answer.usage))
