"""embedContent and batchEmbedContents read into the neutral form, and their answers written from it.

What a text is for (`taskType`, `title`) only Google's own models can be told: elsewhere it is refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ebbtide.dialects.conversation import Embed, Embedded, cannot
from ebbtide.dialects.fields import invalid
from ebbtide.dialects.gemini.members import Members
from ebbtide.dialects.values import check_json, one_line

_READ: Final = frozenset({"model", "content", "outputDimensionality"})
_encode = msgspec.json.Encoder().encode


def read_embed(raw: bytes) -> Embed:
    """An embedContent body. Raises InvalidRequest for what has no place."""
    body = Members("", check_json(raw))
    text, dimensions = _request(body)
    return Embed((text,), dimensions)


def read_embeds(raw: bytes) -> Embed:
    """A batchEmbedContents body, whose requests must want vectors of one size."""
    body = Members("", check_json(raw))
    body.only(frozenset({"model", "requests"}))
    texts, sizes = [], set()
    for request in body.objects("requests"):
        text, dimensions = _request(request)
        texts.append(text)
        sizes.add(dimensions)
        if len(sizes) > 1:
            raise cannot(request.at("outputDimensionality"), "the model's server takes one size for all of a request")
    return Embed(tuple(texts), sizes.pop() if sizes else None)


def write_embedding(answer: Embedded) -> bytes:
    """The answer of embedContent."""
    (vector,) = answer.vectors
    return one_line(_encode({"embedding": {"values": vector}, **_counts(answer)}))


def write_embeddings(answer: Embedded) -> bytes:
    """The answer of batchEmbedContents."""
    return one_line(_encode({"embeddings": [{"values": vector} for vector in answer.vectors], **_counts(answer)}))


def _counts(answer: Embedded) -> dict[str, object]:
    return {} if answer.usage is None else {"usageMetadata": {"promptTokenCount": answer.usage.input_tokens}}


def _request(request: Members) -> tuple[str, int | None]:
    request.only(_READ)
    content = request.inner("content")
    if content is None:
        raise invalid(request.at("content"), "required: an object")
    content.only(frozenset({"role", "parts"}))
    texts = []
    for part in content.objects("parts"):
        part.only(frozenset({"text"}), "the model's server embeds text alone")
        texts.append(part.text("text") or "")
    return "".join(texts), request.whole("outputDimensionality", 1)
