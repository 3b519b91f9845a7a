"""The count of a Messages request's tokens, asked for from the neutral form and told from it. It costs nothing."""

from __future__ import annotations

from typing import Final

import msgspec

from ebbtide.dialects.anthropic.requests import write_request
from ebbtide.dialects.conversation import Conversation, Counted, Sent

_MEMBERS: Final = frozenset({"model", "system", "messages", "tools", "tool_choice"})


class _Count(msgspec.Struct):
    input_tokens: int


_decode_count = msgspec.json.Decoder(_Count).decode


def write_count_request(asked: Conversation, sent: Sent) -> bytes:
    """The body for a server: what of a request counts."""
    request = msgspec.json.decode(write_request(asked, sent), type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: value for name, value in request.items() if name in _MEMBERS})


def read_counted(body: bytes) -> Counted:
    """A server's answer. Raises ValueError for what is none."""
    try:
        return Counted(_decode_count(body).input_tokens)
    except RecursionError:
        raise ValueError("Nested too deeply") from None


def write_counted(answer: Counted) -> bytes:
    """The answer to a caller."""
    return msgspec.json.encode({"input_tokens": answer.tokens})
