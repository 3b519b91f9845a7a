"""The interactive routes: models, chat completions (plain and streamed) and embeddings."""

from __future__ import annotations

from typing import Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json, while_connected
from ebbtide.api.bodies import JSON_BODY_LIMIT, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.render import model_list, model_object
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, is_auto_name
from ebbtide.dialects.openai.batch import ModelList, ModelObject
from ebbtide.dialects.openai.bodies import Chat, Embeddings
from ebbtide.dialects.openai.responses_api.checks import Responses
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import ENDPOINT_FOR, Body, Target, Terms
from ebbtide.dispatch.outcome import STREAM_GAP_SECONDS, Timeouts
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.proxy.exchange import Exchange
from ebbtide.proxy.forward import Ask
from ebbtide.proxy.stream import MEDIA_TYPE
from ebbtide.weight import by_weight, in_turn

_SHARE: Final = 0.99  # of the time a stream may take: the upstream's, so that its end can still be told
_STREAM_HEADERS: Final = {"content-type": MEDIA_TYPE, "cache-control": "no-cache", "x-accel-buffering": "no"}


async def list_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    catalog = gateway.catalog.current
    automatic = [name for name in catalog.auto if catalog.choices(name, principal.role)]
    return answer_json(model_list([*(model.id for model in catalog.visible(principal.role)), *automatic]))


async def get_model(gateway: Gateway, request: Request, principal: Principal) -> Response:
    name = request.path_params["id"]
    if gateway.catalog.current.choices(name, principal.role):
        return answer_json(model_object(name))
    return answer_json(model_object(_usable(gateway.catalog.current, name, principal).id))


async def create_chat_completion(gateway: Gateway, request: Request, principal: Principal) -> Response:
    exchange, ask = await _begin(gateway, request, principal, "chat")
    if ask.body.stream:
        return Streamed(gateway.interactive.stream(exchange, ask), headers=_STREAM_HEADERS)
    return await _forward(gateway, request, exchange, ask)


async def create_response(gateway: Gateway, request: Request, principal: Principal) -> Response:
    exchange, ask = await _begin(gateway, request, principal, "responses")
    if ask.body.stream:
        return Streamed(gateway.interactive.stream(exchange, ask), headers=_STREAM_HEADERS)
    return await _forward(gateway, request, exchange, ask)


async def create_embeddings(gateway: Gateway, request: Request, principal: Principal) -> Response:
    exchange, ask = await _begin(gateway, request, principal, "embeddings")
    return await _forward(gateway, request, exchange, ask)


async def _forward(gateway: Gateway, request: Request, exchange: Exchange, ask: Ask) -> Response:
    answered = await while_connected(request.receive, gateway.interactive.forward(exchange, ask))
    return Response(answered.body, media_type="application/json")


async def _begin(gateway: Gateway, request: Request, principal: Principal, target: Target) -> tuple[Exchange, Ask]:
    exchange = await gateway.interactive.begin(principal, request.scope["request_id"], target)
    exchange.headers = request.scope["answer_headers"]
    with gateway.interactive.refusals(exchange):
        return exchange, await _read_ask(gateway, request, exchange)


async def _read_ask(gateway: Gateway, request: Request, exchange: Exchange) -> Ask:
    target = exchange.target
    raw = await read_body(request, JSON_BODY_LIMIT)
    async with in_turn(len(raw)):
        body = await by_weight(len(raw), CALLERS[target].parse_body, raw, Terms())
    exchange.model, exchange.streamed = body.model, body.stream
    model = _chosen(gateway, body.model, exchange.principal)
    exchange.model = model.id
    structlog.contextvars.bind_contextvars(model=model.id)
    if is_auto_name(body.model):  # the answer then names the model that was chosen
        body = msgspec.structs.replace(body, model=model.id)
    if model.type != ENDPOINT_FOR[target].model_type:
        raise InvalidRequest(f"Model {body.model!r} does not serve {target}: it is of type {model.type}", param="model")
    return Ask(target, model, body, _timeouts(gateway, body), exchange.principal.account_id)


def _timeouts(gateway: Gateway, body: Body) -> Timeouts:
    settings = gateway.settings.current
    if body.stream:
        return Timeouts(total=settings.stream_request_timeout_seconds * _SHARE, gap=STREAM_GAP_SECONDS)
    return Timeouts(total=settings.request_timeout_seconds)


def _chosen(gateway: Gateway, name: str, principal: Principal) -> Model:
    """The model of this name; of an automatic one the first that can take a request now, else the first."""
    choices = gateway.catalog.current.choices(name, principal.role)
    if not choices:
        return _usable(gateway.catalog.current, name, principal)
    able = (model for model in choices if gateway.dispatcher.is_able(model, "interactive"))
    return next(able, choices[0])


def _usable(catalog: Catalog, name: str, principal: Principal) -> Model:
    """The model of this name; one that the caller may not use is worded exactly as one that does not exist."""
    model = catalog.usable(name, principal.role)
    if model is None:
        raise NotFound(f"Model {name!r} not found", code="model_not_found", param="model")
    return model


_ERRORS = (400, 404, 413, 429, 502, 504)

ROUTES: tuple[Endpoint, ...] = (
    Closed("GET", "/v1/models", list_models, "List the models you may use", Described(answer=ModelList)),
    Closed(
        "GET",
        "/v1/models/{id:path}",
        get_model,
        "Get a model by its id or an alias",
        Described(answer=ModelObject, errors=(404,)),
    ),
    Closed(
        "POST",
        "/v1/chat/completions",
        create_chat_completion,
        "Create a chat completion, whole or as a stream",
        Described(request=Chat, answer="application/json", streams=True, errors=_ERRORS),
    ),
    Closed(
        "POST",
        "/v1/responses",
        create_response,
        "Create a response, whole or as a stream; nothing of it is kept",
        Described(request=Responses, answer="application/json", streams=True, errors=_ERRORS),
    ),
    Closed(
        "POST",
        "/v1/embeddings",
        create_embeddings,
        "Create embeddings",
        Described(request=Embeddings, answer="application/json", errors=_ERRORS),
    ),
)
