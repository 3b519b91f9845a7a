"""The interactive routes of OpenAI's API: chat completions (plain and streamed) and embeddings."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.gateway import Gateway
from ebbtide.api.interactive import Spoken, answer_interactive
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.openai.bodies import Chat, Embeddings

INTERACTIVE_ERRORS: Final = (400, 404, 413, 429, 502, 504)


async def create_chat_completion(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, Spoken("chat"))


async def create_embeddings(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, Spoken("embeddings"))


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/chat/completions",
        create_chat_completion,
        "Create a chat completion, whole or as a stream",
        Described(request=Chat, answer="application/json", streams=True, errors=INTERACTIVE_ERRORS),
    ),
    Closed(
        "POST",
        "/v1/embeddings",
        create_embeddings,
        "Create embeddings",
        Described(request=Embeddings, answer="application/json", errors=INTERACTIVE_ERRORS),
    ),
)
