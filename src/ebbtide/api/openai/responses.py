"""The Responses API: one response, whole or as a stream. None is kept, and that is said where one is asked for."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.gateway import Gateway
from ebbtide.api.interactive import Spoken, answer_interactive
from ebbtide.api.openai.inference import INTERACTIVE_ERRORS
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.openai.responses_api.checks import Responses
from ebbtide.errors import NotFound

_NOTHING: Final = Described(errors=(404,))


async def create_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, Spoken("responses"))


async def refuse_kept(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(
        "This gateway keeps no responses: each answer comes once, with its request", code="response_not_found"
    )


async def refuse_helper(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(f"Not served: {request.url.path} needs the tokenizer or the state of one certain model server")


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/responses",
        create_response,
        "Create a response, whole or as a stream; nothing of it is kept",
        Described(request=Responses, answer="application/json", streams=True, errors=INTERACTIVE_ERRORS),
    ),
    Closed("POST", "/v1/responses/compact", refuse_helper, "Not served: answers 404", _NOTHING),
    Closed("POST", "/v1/responses/input_tokens", refuse_helper, "Not served: answers 404", _NOTHING),
    Closed("GET", "/v1/responses/{id}", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("DELETE", "/v1/responses/{id}", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("POST", "/v1/responses/{id}/cancel", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("GET", "/v1/responses/{id}/input_items", refuse_kept, "Always 404: no response is kept", _NOTHING),
)
