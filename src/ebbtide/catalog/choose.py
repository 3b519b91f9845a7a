"""From the name in a request to a model, with one wording for a model that is missing and one that is withheld."""

from __future__ import annotations

from ebbtide.accounts.roles import Role
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, ModelType
from ebbtide.dialects.values import Target
from ebbtide.errors import InvalidRequest, NotFound

_SERVED_BY: dict[Target, ModelType] = {"chat": "chat", "embeddings": "embedding"}
_SERVES: dict[ModelType, str] = {"chat": "chat completions", "embedding": "embeddings"}


def choose_model(catalog: Catalog, name: str, role: Role, target: Target) -> Model:
    """The model that `name` means for this role.

    Raises NotFound (`Model 'x' not found`) when there is none or the role may not use it, InvalidRequest when the
    model serves another endpoint.
    """
    model = catalog.usable(name, role)
    if model is None:
        raise NotFound(f"Model '{name}' not found", code="model_not_found", param="model")
    wanted = _SERVED_BY.get(target, "chat")
    if model.type != wanted:
        raise InvalidRequest(f"Model '{name}' serves {_SERVES[model.type]}, not {_SERVES[wanted]}", param="model")
    return model
