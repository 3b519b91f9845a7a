"""The models of this deployment, as one frozen snapshot. Names are ids and aliases; auto names are never among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ebbtide.accounts.roles import Role
from ebbtide.catalog.model import Model


@dataclass(frozen=True, slots=True)
class Catalog:
    """Models in configured order. `Catalog.of(models)` makes one; ids and aliases must be unique across them.

    `is_settled`: a model that is not here does not exist. False while a server has yet to say what it serves, or where
    nothing names models: nobody may then take a model for gone. `auto` names lists of model ids to choose from.
    """

    models: tuple[Model, ...]
    _by_name: MappingProxyType[str, Model] = field(repr=False)
    is_settled: bool = True
    auto: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, models: Iterable[Model], *, is_settled: bool = True) -> Catalog:
        kept = tuple(models)
        names = {name: model for model in kept for name in (model.id, *model.aliases)}
        return cls(kept, MappingProxyType(names), is_settled)

    def resolve(self, name: str) -> Model | None:
        """The model of that id or alias."""
        return self._by_name.get(name)

    def usable(self, name: str, role: Role) -> Model | None:
        """Like `resolve`, and None too when `role` may not use the model: both cases must look the same outside."""
        model = self._by_name.get(name)
        return model if model is not None and model.min_role <= role else None

    def choices(self, name: str, role: Role) -> Sequence[Model]:
        """The models that an automatic name chooses from and `role` may use, in order; none for any other name."""
        listed = (self._by_name[model_id] for model_id in self.auto.get(name, ()))
        return [model for model in listed if model.min_role <= role]

    def visible(self, role: Role) -> Sequence[Model]:
        """The models that `role` may use, in configured order."""
        return [model for model in self.models if model.min_role <= role]


EMPTY = Catalog.of((), is_settled=False)
