"""Gemini's rows in the table of wire forms: generateContent, and batchEmbedContents."""

from __future__ import annotations

from typing import Final

from ebbtide.dialects.base import Pieces, Server
from ebbtide.dialects.gemini.requests import write_embed, write_request
from ebbtide.dialects.gemini.responses import read_error, read_generated, read_vectors, usage_of
from ebbtide.dialects.gemini.stream import GeneratedEvents
from ebbtide.dialects.values import Told, Usage


def _told(body: bytes, status: int) -> Told | None:
    told = read_error(body)
    if told is None:
        return None
    return Told(told.error, told.status if told.status == 401 else status, told.retry_after)


def _used(said: dict[str, object]) -> Usage | None:
    return usage_of(said.get("usageMetadata"))


def _no_stream(_: str) -> Pieces:
    raise ValueError("Embeddings are not streamed")


GEMINI_SERVER: Final = Server(
    write_request=lambda asked, _: write_request(asked),
    read_answer=read_generated,
    read_stream=GeneratedEvents,
    read_error=_told,
    read_usage=_used,
)
EMBEDDINGS_SERVER: Final = Server(
    write_request=lambda asked, sent: write_embed(asked, sent.model),
    read_answer=read_vectors,
    read_stream=_no_stream,
    read_error=_told,
    read_usage=_used,
)
