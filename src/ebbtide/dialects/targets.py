"""Every form that callers and upstreams speak, in two tables: a new one is a row and the functions that it names.

`carried_as` tells in which form a request of a target goes to a server: its own where the server speaks it, else the
first of the server's forms that means the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ebbtide.dialects.anthropic.codec import COUNT_TOKENS, COUNT_TOKENS_SERVER, MESSAGES, MESSAGES_SERVER
from ebbtide.dialects.base import Caller, Server
from ebbtide.dialects.gemini import codec as gemini
from ebbtide.dialects.openai.codec import CHAT, CHAT_SERVER, EMBEDDINGS, EMBEDDINGS_SERVER
from ebbtide.dialects.openai.responses_api.codec import RESPONSES, RESPONSES_SERVER
from ebbtide.dialects.values import Target, Wire

CALLERS: Final[dict[Target, Caller]] = {
    "chat": CHAT,
    "embeddings": EMBEDDINGS,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "count_tokens": COUNT_TOKENS,
    "gemini": gemini.GENERATE,
    "gemini_count": gemini.COUNT,
    "gemini_embed": gemini.EMBED,
    "gemini_embeddings": gemini.EMBEDDINGS,
}
SERVERS: Final[dict[Wire, Server]] = {
    "chat": CHAT_SERVER,
    "embeddings": EMBEDDINGS_SERVER,
    "responses": RESPONSES_SERVER,
    "messages": MESSAGES_SERVER,
    "count_tokens": COUNT_TOKENS_SERVER,
    "gemini": gemini.GEMINI_SERVER,
    "gemini_count": gemini.COUNT_SERVER,
    "gemini_embed": gemini.EMBED_SERVER,
    "gemini_embeddings": gemini.EMBEDDINGS_SERVER,
}
_FAMILIES: Final[tuple[frozenset[Wire], ...]] = (
    frozenset({"chat", "responses", "messages", "gemini"}),
    frozenset({"embeddings", "gemini_embeddings", "gemini_embed"}),
    frozenset({"count_tokens", "gemini_count"}),
)


def carried_as(target: Target, spoken: Sequence[Wire]) -> Wire | None:
    """The form of a request to a server that speaks these, the preferred ones first; None where none will do."""
    if target in spoken:
        return target
    family = next((family for family in _FAMILIES if target in family), frozenset())
    return next((wire for wire in spoken if wire in family and wire in SERVERS), None)
