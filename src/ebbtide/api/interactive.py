"""One interactive request over HTTP, whatever its target: its body read and checked, its model chosen, its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, while_connected
from ebbtide.api.bodies import JSON_BODY_LIMIT, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, is_auto_name
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import CALLED, ENDPOINT_FOR, Body, Target, Terms
from ebbtide.dispatch.outcome import STREAM_GAP_SECONDS, Timeouts
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.proxy.exchange import Exchange
from ebbtide.proxy.forward import Ask
from ebbtide.proxy.stream import MEDIA_TYPE
from ebbtide.weight import by_weight, in_turn

_SHARE: Final = 0.99  # of the time a stream may take: the upstream's, so that its end can still be told
_STREAM_HEADERS: Final = {"content-type": MEDIA_TYPE, "cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class Framing:
    """A form in which a stream's events go out, and its media type."""

    media_type: str
    frame: Callable[[AsyncGenerator[bytes, None]], AsyncGenerator[bytes, None]]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A request's target, and the headers in which its dialect tells the version of its API and its betas.

    Where the path says what other dialects' bodies do: `fitted` puts its model into the body, `stream` asks for a
    stream, `framed` is the form of one that is not server-sent events.
    """

    target: Target
    version: str | None = None
    beta: str | None = None
    stream: bool = False
    fitted: Callable[[bytes], bytes] | None = None
    framed: Framing | None = None


async def answer_interactive(gateway: Gateway, request: Request, principal: Principal, spoken: Spoken) -> Response:
    """The answer of the model that the request's body names, whole or as a stream."""
    exchange = await gateway.interactive.begin(principal, request.scope["request_id"], spoken.target)
    exchange.headers = request.scope["answer_headers"]
    with gateway.interactive.refusals(exchange):
        ask = await _read_ask(gateway, request, exchange, spoken)
    if ask.body.stream:
        events = gateway.interactive.stream(exchange, ask)
        if spoken.framed is None:
            return Streamed(events, headers=_STREAM_HEADERS)
        headers = _STREAM_HEADERS | {"content-type": spoken.framed.media_type}
        return Streamed(spoken.framed.frame(events), headers=headers)
    answered = await while_connected(request.receive, gateway.interactive.forward(exchange, ask))
    return Response(answered.body, media_type="application/json")


def usable_model(catalog: Catalog, name: str, principal: Principal) -> Model:
    """The model of this name; one that the caller may not use is worded exactly as one that does not exist."""
    model = catalog.usable(name, principal.role)
    if model is None:
        raise NotFound(f"Model {name!r} not found", code="model_not_found", param="model")
    return model


async def _read_ask(gateway: Gateway, request: Request, exchange: Exchange, spoken: Spoken) -> Ask:
    target = spoken.target
    raw = await read_body(request, JSON_BODY_LIMIT)
    terms = Terms(gateway.settings.current.request_limits, spoken.version)
    async with in_turn(len(raw)):
        body = await by_weight(len(raw), _parse, spoken, raw, terms)
    exchange.model, exchange.streamed = body.model, body.stream
    model = _chosen(gateway, body.model, exchange.principal)
    exchange.model = model.id
    structlog.contextvars.bind_contextvars(model=model.id)
    if is_auto_name(body.model):  # the answer then names the model that was chosen
        body = msgspec.structs.replace(body, model=model.id)
    if model.type != _type_for(target):
        asked = CALLED.get(target, target)
        raise InvalidRequest(f"Model {body.model!r} does not serve {asked}: it is of type {model.type}", param="model")
    return Ask(
        target=target,
        model=model,
        body=body,
        timeouts=_timeouts(gateway, body),
        caller=exchange.principal.account_id,
        request_id=exchange.request_id,
        version=spoken.version,
        beta=spoken.beta,
    )


def _parse(spoken: Spoken, raw: bytes, terms: Terms) -> Body:
    raw = raw if spoken.fitted is None else spoken.fitted(raw)
    body = CALLERS[spoken.target].parse_body(raw, terms)
    return msgspec.structs.replace(body, stream=True) if spoken.stream else body


def _type_for(target: Target) -> str:
    if target == "gemini_embeddings":
        return "embedding"
    return ENDPOINT_FOR[target].model_type if target in ENDPOINT_FOR else "chat"


def _timeouts(gateway: Gateway, body: Body) -> Timeouts:
    settings = gateway.settings.current
    if body.stream:
        return Timeouts(total=settings.stream_request_timeout_seconds * _SHARE, gap=STREAM_GAP_SECONDS)
    return Timeouts(total=settings.request_timeout_seconds)


def _chosen(gateway: Gateway, name: str, principal: Principal) -> Model:
    """The model of this name; of an automatic one the first that can take a request now, else the first."""
    choices = gateway.catalog.current.choices(name, principal.role)
    if not choices:
        return usable_model(gateway.catalog.current, name, principal)
    able = (model for model in choices if gateway.dispatcher.is_able(model, "interactive"))
    return next(able, choices[0])
