"""The Messages API: messages, plain and streamed, and the count of a request's tokens.

Served under `/v1` and, for clients whose base URL ends in `/anthropic`, under `/anthropic/v1` alike.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.dialect import VERSION
from ebbtide.api.gateway import Gateway
from ebbtide.api.interactive import Spoken, answer_interactive
from ebbtide.api.openai.inference import INTERACTIVE_ERRORS
from ebbtide.api.parameters import OneOfHeader
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.anthropic.bodies import VERSIONS, CountTokens, Messages
from ebbtide.dialects.values import Target

PREFIXES: Final = ("", "/anthropic")
ANTHROPIC_VERSION: Final = OneOfHeader(
    VERSION, VERSIONS, VERSIONS[0], "The version of the Messages API that the request is written for"
)


async def create_message(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "messages"))


async def count_tokens(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await answer_interactive(gateway, request, principal, _spoken(request, "count_tokens"))


def _spoken(request: Request, target: Target) -> Spoken:
    betas = ",".join(value for value in request.headers.getlist("anthropic-beta") if value)
    return Spoken(target, ANTHROPIC_VERSION.read(request), betas or None)


ROUTES: tuple[Endpoint, ...] = tuple(
    endpoint
    for prefix in PREFIXES
    for endpoint in (
        Closed(
            "POST",
            f"{prefix}/v1/messages",
            create_message,
            "Create a message, whole or as a stream",
            Described(
                request=Messages,
                answer="application/json",
                streams=True,
                parameters=(ANTHROPIC_VERSION,),
                errors=INTERACTIVE_ERRORS,
            ),
        ),
        Closed(
            "POST",
            f"{prefix}/v1/messages/count_tokens",
            count_tokens,
            "Count the input tokens of a message, on models whose server does",
            Described(
                request=CountTokens,
                answer="application/json",
                parameters=(ANTHROPIC_VERSION,),
                errors=INTERACTIVE_ERRORS,
            ),
        ),
    )
)
