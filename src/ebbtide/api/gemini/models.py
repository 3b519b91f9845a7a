"""Gemini's models: list and get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.pages import PAGE_SIZE, PAGE_TOKEN, page_asked
from ebbtide.api.interactive import usable_model
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.catalog.model import Model, ModelType
from ebbtide.dialects.gemini.models import PREFIX, GeminiModel, GeminiModels, gemini_model
from ebbtide.dialects.values import Target
from ebbtide.dispatch.translation import serves
from ebbtide.errors import InvalidRequest

BASE: Final = "/v1beta"
_METHODS: Final[dict[ModelType, dict[str, Target]]] = {
    "chat": {"generateContent": "gemini", "countTokens": "gemini_count"},
    "embedding": {"embedContent": "gemini_embed", "batchEmbedContents": "gemini_embeddings"},
}
_BATCH_METHODS: Final[dict[ModelType, str]] = {"chat": "batchGenerateContent", "embedding": "asyncBatchEmbedContent"}


async def list_gemini_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, size = page_asked(request)
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
    if choices := catalog.choices(name, principal.role):
        return answer_json(_automatic(name, choices))
    return answer_json(_model(usable_model(catalog, name, principal)))


def _models(gateway: Gateway, principal: Principal) -> Iterator[GeminiModel]:
    """The models that the caller may use, in configured order, then the automatic names."""
    catalog = gateway.catalog.current
    yield from map(_model, catalog.visible(principal.role))
    automatic = ((name, catalog.choices(name, principal.role)) for name in catalog.auto)
    yield from (_automatic(name, choices) for name, choices in automatic if choices)


def _model(model: Model) -> GeminiModel:
    online = [method for method, target in _METHODS[model.type].items() if serves(model, target)]
    methods = [*online, _BATCH_METHODS[model.type]] if model.has_batch_route else online
    return gemini_model(model.id, methods, (model.context_length, model.max_output_tokens))


def _automatic(name: str, choices: Sequence[Model]) -> GeminiModel:
    """An automatic name, which batches cannot use; it can be asked for what each of its models can."""
    methods = [method for method, target in _METHODS["chat"].items() if all(serves(model, target) for model in choices)]
    return gemini_model(name, methods)


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
