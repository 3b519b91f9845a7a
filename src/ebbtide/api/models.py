"""The list of models, which every dialect's SDK asks for at the same path, each in its own shape."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.dialect import speaks_messages
from ebbtide.api.gateway import Gateway
from ebbtide.api.interactive import usable_model
from ebbtide.api.openai.render import model_list, model_object
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.catalog.model import Model
from ebbtide.dialects.anthropic.models import ModelInfo, ModelPage, page_of
from ebbtide.dialects.openai.batch import ModelList, ModelObject
from ebbtide.errors import InvalidRequest

AFTER = TextParameter("after_id", "Messages API: the last_id of the page before")
BEFORE = TextParameter("before_id", "Messages API: the first_id of the page after")
LIMIT = IntegerParameter("limit", 20, 1, 1_000, "Messages API: models in a page")


async def list_models(gateway: Gateway, request: Request, principal: Principal) -> Response:
    infos = list(_infos(gateway, principal))
    asked = AFTER.read(request), BEFORE.read(request), LIMIT.read(request)  # faults are told whoever asks
    if speaks_messages(request.scope):
        return _page(infos, *asked)
    return answer_json(model_list([info.id for info in infos]))


async def get_model(gateway: Gateway, request: Request, principal: Principal) -> Response:
    name = request.path_params["id"]
    catalog = gateway.catalog.current
    automatic = bool(catalog.choices(name, principal.role))
    model = None if automatic else usable_model(catalog, name, principal)
    if speaks_messages(request.scope):
        return answer_json(_info(name, model))
    return answer_json(model_object(name if model is None else model.id))


def _infos(gateway: Gateway, principal: Principal) -> Iterator[ModelInfo]:
    """The models that the caller may use, in configured order, then the automatic names."""
    catalog = gateway.catalog.current
    yield from (_info(model.id, model) for model in catalog.visible(principal.role))
    yield from (_info(name, None) for name in catalog.auto if catalog.choices(name, principal.role))


def _info(name: str, model: Model | None) -> ModelInfo:
    if model is None:
        return ModelInfo(id=name, display_name=name)
    return ModelInfo(
        id=model.id,
        display_name=model.id,
        max_input_tokens=model.context_length,
        max_tokens=model.max_output_tokens,
    )


def _page(infos: list[ModelInfo], after: str | None, before: str | None, limit: int) -> Response:
    if after is not None and before is not None:
        raise InvalidRequest("Give after_id or before_id, not both", param="before_id")
    cursor = after or before
    names = [info.id for info in infos]
    if cursor is not None and cursor not in names:
        param = "after_id" if after else "before_id"
        raise InvalidRequest(f"'{param}' names none of your models", param=param)
    if after is not None:
        infos = infos[names.index(after) + 1 :]
    elif before is not None:
        infos = infos[: names.index(before)]
        return answer_json(page_of(infos[-limit:], has_more=len(infos) > limit))
    return answer_json(page_of(infos[:limit], has_more=len(infos) > limit))


_MORE = (AFTER, BEFORE, LIMIT)

ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET", "/v1/models", list_models, "List the models you may use", Described(answer=ModelList, parameters=_MORE)
    ),
    Closed(
        "GET",
        "/v1/models/{id:path}",
        get_model,
        "Get a model by its id or an alias",
        Described(answer=ModelObject, errors=(404,)),
    ),
    Closed(
        "GET",
        "/anthropic/v1/models",
        list_models,
        "List the models you may use, in the Messages API's shape",
        Described(answer=ModelPage, parameters=_MORE, errors=(400,)),
    ),
    Closed(
        "GET",
        "/anthropic/v1/models/{id:path}",
        get_model,
        "Get a model, in the Messages API's shape",
        Described(answer=ModelInfo, errors=(404,)),
    ),
)
