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

_KEPT: Final = "This gateway keeps no responses: each answer comes once, with its request"
_NOTHING: Final = Described(errors=(404,))
_NEVER: Final = "Always 404: no response is kept"


async def create_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, Spoken("responses"))


async def get_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(_KEPT, code="response_not_found")


async def delete_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(_KEPT, code="response_not_found")


async def cancel_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(_KEPT, code="response_not_found")


async def list_input_items(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(_KEPT, code="response_not_found")


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/responses",
        create_response,
        "Create a response, whole or as a stream; nothing of it is kept",
        Described(request=Responses, answer="application/json", streams=True, errors=INTERACTIVE_ERRORS),
    ),
    Closed("GET", "/v1/responses/{id}", get_response, _NEVER, _NOTHING),
    Closed("DELETE", "/v1/responses/{id}", delete_response, _NEVER, _NOTHING),
    Closed("POST", "/v1/responses/{id}/cancel", cancel_response, _NEVER, _NOTHING),
    Closed("GET", "/v1/responses/{id}/input_items", list_input_items, _NEVER, _NOTHING),
)
