"""What the Responses API offers for responses that were kept: nothing is here, and that is said in its place."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.errors import NotFound

_NOTHING: Final = Described(errors=(404,))


async def refuse_kept(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(
        "This gateway keeps no responses: each answer comes once, with its request", code="response_not_found"
    )


async def refuse_helper(gateway: Gateway, request: Request, principal: Principal) -> Response:
    raise NotFound(f"Not served: {request.url.path} needs the tokenizer or the state of one certain model server")


ROUTES: tuple[Endpoint, ...] = (
    Closed("POST", "/v1/responses/compact", refuse_helper, "Not served: answers 404", _NOTHING),
    Closed("POST", "/v1/responses/input_tokens", refuse_helper, "Not served: answers 404", _NOTHING),
    Closed("GET", "/v1/responses/{id}", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("DELETE", "/v1/responses/{id}", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("POST", "/v1/responses/{id}/cancel", refuse_kept, "Always 404: no response is kept", _NOTHING),
    Closed("GET", "/v1/responses/{id}/input_items", refuse_kept, "Always 404: no response is kept", _NOTHING),
)
