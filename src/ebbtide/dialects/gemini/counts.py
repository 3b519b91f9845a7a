"""countTokens: its answer written from the neutral form, and the other way round. A count costs nothing."""

from __future__ import annotations

import msgspec

from ebbtide.dialects.conversation import Conversation, Counted, Sent
from ebbtide.dialects.gemini.requests import write_request


class _Count(msgspec.Struct, rename="camel"):
    total_tokens: int


_decode_count = msgspec.json.Decoder(_Count).decode


def write_counted(answer: Counted) -> bytes:
    """The answer."""
    return msgspec.json.encode({"totalTokens": answer.tokens})


def write_count_request(asked: Conversation, sent: Sent) -> bytes:
    """The body for a server; `sent.model` with its `models/`."""
    request = msgspec.json.decode(write_request(asked), type=dict[str, msgspec.Raw])
    return msgspec.json.encode({"generateContentRequest": {"model": sent.model, **request}})


def read_counted(body: bytes) -> Counted:
    """A server's answer. Raises ValueError for what is none."""
    try:
        return Counted(_decode_count(body).total_tokens)
    except RecursionError:
        raise ValueError("Nested too deeply") from None
