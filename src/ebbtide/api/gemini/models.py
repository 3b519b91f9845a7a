"""Gemini's models: list and get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.pages import PAGE_SIZE, PAGE_TOKEN
from ebbtide.api.interactive import usable_model
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.catalog.model import Model
from ebbtide.dialects.gemini.models import PREFIX, GeminiModel, GeminiModels, gemini_model
from ebbtide.errors import InvalidRequest

BASE: Final = "/v1beta"


async def list_gemini_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, size = PAGE_TOKEN.read(request), PAGE_SIZE.read(request)
    models = list(_models(gateway, principal))
    names = [model.name for model in models]
    if after is not None and after not in names:
        raise InvalidRequest("pageToken is none that a page before told", param="pageToken")
    start = 0 if after is None else names.index(after) + 1
    page = GeminiModels(models=models[start : start + size])
    if len(models) > start + size:
        page = GeminiModels(models=page.models, next_page_token=page.models[-1].name)
    return answer_json(page)


async def get_gemini_model(gateway: Gateway, request: Request, principal: Principal) -> Response:
    name = request.path_params["model"]
    catalog = gateway.catalog.current
    if catalog.choices(name, principal.role):
        return answer_json(gemini_model(name, "chat"))
    return answer_json(_model(usable_model(catalog, name, principal)))


def _models(gateway: Gateway, principal: Principal) -> Iterator[GeminiModel]:
    """The models that the caller may use, in configured order, then the automatic names."""
    catalog = gateway.catalog.current
    yield from map(_model, catalog.visible(principal.role))
    yield from (gemini_model(name, "chat") for name in catalog.auto if catalog.choices(name, principal.role))


def _model(model: Model) -> GeminiModel:
    return gemini_model(model.id, model.type, (model.context_length, model.max_output_tokens))


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        f"{BASE}/models",
        list_gemini_models,
        "List the models you may use, in Gemini's shape",
        Described(answer=GeminiModels, parameters=(PAGE_SIZE, PAGE_TOKEN), errors=(400,)),
    ),
    Closed(
        "GET",
        f"{BASE}/{PREFIX}{{model:path}}",
        get_gemini_model,
        "Get a model, in Gemini's shape",
        Described(answer=GeminiModel, errors=(404,)),
    ),
)
