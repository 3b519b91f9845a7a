"""The models file: YAML in, a catalog out, or one sentence that names the line at fault.

The form of the file is entries.py. Nothing of a value that may be a secret
is ever put into a message.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn, get_args
from urllib.parse import urlsplit

import msgspec

from ebbtide.accounts.roles import Role
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.entries import ModelEntry, ModelsFile, PricingEntry, RouteEntry, Spoken, TimeoutsEntry
from ebbtide.catalog.model import (
    FREE,
    DeploymentType,
    Kind,
    Model,
    ModelType,
    Pricing,
    Route,
    TimeLimits,
    is_auto_name,
)
from ebbtide.catalog.prices import is_price
from ebbtide.catalog.yamlmarks import YamlFault, read_marked
from ebbtide.errors import SetupError

BASE_URLS: Mapping[Kind, str] = {
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
_BY_PRIORITY: frozenset[Kind] = frozenset({"vllm", "sglang"})
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<key>.*)`$", re.DOTALL)

_CHOICES: Mapping[str, Sequence[str]] = {
    "kind": get_args(Kind),
    "type": get_args(ModelType),
    "deployment_type": get_args(DeploymentType),
    "speaks": get_args(Spoken),
    "min_role": [role.value for role in Role],
}


def parse_models(text: str, environ: Mapping[str, str], *, name: str = "models file") -> Catalog:
    """The catalog that `text` describes. Raises SetupError: `<name>, line <n>: <what is wrong>`."""
    try:
        value, lines = read_marked(text, environ)
        entries = _convert(value, lines)
        builder = _Builder(lines)
        catalog = Catalog.of(builder.models(entries))
        return replace(catalog, auto=builder.auto(entries, catalog))
    except YamlFault as fault:
        raise SetupError(f"{name}, line {fault.line}: {fault.message}") from fault


def _convert(value: object, lines: Mapping[str, int]) -> ModelsFile:
    try:
        return msgspec.convert(value, ModelsFile)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        what, path = (found["what"], found["path"] or "$") if found else (str(error), "$")
        where = path.removeprefix("$").removeprefix(".")
        unknown = _UNKNOWN.match(what)
        if unknown:
            what, path = f"unknown key '{unknown['key']}'", f"{path}.{unknown['key']}"
        elif what.startswith("Invalid enum value") and (choices := _CHOICES.get(_key_of(path))):
            what = f"{what}; it is one of {', '.join(choices)}"
        raise YamlFault(f"{where}: {what}" if where else what, lines.get(path, 1)) from error


def _key_of(path: str) -> str:
    """The key that a value stands under, itself or in a list."""
    return path.rpartition(".")[2].partition("[")[0]


class _Builder:
    """Checks what types cannot say, and turns entries into models."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._lines = lines
        self._names: dict[str, int] = {}

    def models(self, entries: ModelsFile) -> Iterator[Model]:
        for index, entry in enumerate(entries.models):
            yield self._model(entry, f"$.models[{index}]")

    def _model(self, entry: ModelEntry, path: str) -> Model:
        self._take_name(entry.id, f"{path}.id")
        for i, alias in enumerate(entry.aliases):
            self._take_name(alias, f"{path}.aliases[{i}]")
        if not is_price(entry.batch_price_factor):
            self._refuse(f"{path}.batch_price_factor", "must be 0 or more, with at most six decimals")
        return Model(
            id=entry.id,
            type=entry.type,
            aliases=tuple(entry.aliases),
            routes=self._routes(entry, path),
            context_length=entry.context_length,
            max_output_tokens=entry.max_output_tokens,
            min_role=entry.min_role,
            pricing=self._pricing(entry.pricing, f"{path}.pricing"),
            batch_price_factor=entry.batch_price_factor,
            time_limits=self._time_limits(entry.timeouts),
            hedge_after=entry.hedge_after,
        )

    def auto(self, entries: ModelsFile, catalog: Catalog) -> Mapping[str, tuple[str, ...]]:
        """The lists of models that automatic names choose from: chat models, by their ids."""
        lists = {}
        for name, listed in entries.auto.items():
            if not is_auto_name(name):
                self._refuse(f"$.auto.{name}", "is no automatic name: those are 'auto' and 'auto-<tier>'")
            if not listed:
                self._refuse(f"$.auto.{name}", "lists no model")
            models = []
            for i, model_name in enumerate(listed):
                model = catalog.resolve(model_name)
                if model is None or model.type != "chat":
                    self._refuse(f"$.auto.{name}[{i}]", f"'{model_name}' is not a chat model of this file")
                models.append(model.id)
            lists[name] = tuple(dict.fromkeys(models))
        return MappingProxyType(lists)

    def _time_limits(self, entry: TimeoutsEntry | None) -> TimeLimits | None:
        if entry is None:
            return None
        return TimeLimits(entry.connect, entry.first_byte, entry.gap, entry.total)

    def _take_name(self, name: str, path: str) -> None:
        if is_auto_name(name):
            self._refuse(path, f"'{name}' is kept for the automatic choice of a model")
        if name in self._names:
            self._refuse(path, f"'{name}' is already the name of a model on line {self._names[name]}")
        self._names[name] = self._lines.get(path, 1)

    def _pricing(self, entry: PricingEntry | None, path: str) -> Pricing:
        if entry is None:
            return FREE
        prices = {key: getattr(entry, key) for key in ("input", "output", "cached_input", "cache_write")}
        bad = [key for key, price in prices.items() if price is not None and not is_price(price)]
        for key in bad:
            self._refuse(f"{path}.{key}", "must be 0 or more and below a million USD, with at most six decimals")
        if bad:
            return FREE
        return Pricing(
            input=entry.input,
            output=entry.output,
            cached_input=entry.input if entry.cached_input is None else entry.cached_input,
            cache_write=entry.input if entry.cache_write is None else entry.cache_write,
        )

    def _routes(self, entry: ModelEntry, path: str) -> tuple[Route, ...]:
        routes: dict[str, Route] = {}
        for i, route in enumerate(entry.routes):
            place = f"{path}.routes[{i}]"
            if route.id in routes:
                self._refuse(f"{place}.id", f"route '{route.id}' is repeated in this model")
            self._check_kind(route, entry, place)
            routes[route.id] = self._route(route, entry.id, place)
        return tuple(routes.values())

    def _check_kind(self, route: RouteEntry, model: ModelEntry, path: str) -> None:
        """What a kind asks of its route, and of the model that it serves."""
        if route.kind == "anthropic" and model.type == "embedding":
            self._refuse(f"{path}.kind", "Anthropic's API has no embeddings")
        if route.kind == "anthropic" and model.max_output_tokens is None:
            self._refuse(f"{path}.kind", "Anthropic's API needs a limit: give the model its max_output_tokens")
        if route.api_version is not None and route.kind not in BASE_URLS:
            self._refuse(f"{path}.api_version", "only routes of kind anthropic and gemini have an api_version")
        if route.speaks is not None and route.kind in BASE_URLS:
            self._refuse(f"{path}.speaks", f"a route of kind {route.kind} speaks its maker's API alone")
        if route.speaks is not None and len(set(route.speaks)) < len(route.speaks):
            self._refuse(f"{path}.speaks", "a target is repeated")
        if route.priority_scheduling and route.kind not in _BY_PRIORITY:
            self._refuse(f"{path}.priority_scheduling", "only routes of kind vllm and sglang have priorities")

    def _route(self, entry: RouteEntry, model_id: str, path: str) -> Route:
        if not math.isfinite(entry.weight):
            self._refuse(f"{path}.weight", "must be a finite number")
        if entry.kind == "standin" and entry.base_url is not None:
            self._refuse(f"{path}.base_url", "the stand-in is built in and has no base_url")
        if entry.kind != "standin" and entry.latency is not None:
            self._refuse(f"{path}.latency", "only a route of kind standin has a latency")
        return Route(
            id=entry.id,
            kind=entry.kind,
            model=entry.model or model_id,
            base_url=""
            if entry.kind == "standin"
            else self._base_url(entry.base_url or BASE_URLS.get(entry.kind), path),
            api_keys=self._api_keys(entry, path),
            weight=entry.weight,
            deployment_type=entry.deployment_type,
            latency=entry.latency or 0.0,
            api_version=entry.api_version,
            priority_scheduling=entry.priority_scheduling,
            max_concurrency=entry.max_concurrency,
            reserve=entry.reserve,
            speaks=None if entry.speaks is None else tuple(entry.speaks),
        )

    def _api_keys(self, entry: RouteEntry, path: str) -> tuple[str, ...]:
        if entry.api_key is not None and entry.api_keys is not None:
            self._refuse(f"{path}.api_keys", "a route has either api_key or api_keys")
        if entry.api_keys is not None and len(set(entry.api_keys)) < len(entry.api_keys):
            self._refuse(f"{path}.api_keys", "a key is repeated")
        return (entry.api_key,) if entry.api_key is not None else tuple(entry.api_keys or ())

    def _base_url(self, value: str | None, path: str) -> str:
        if value is None:
            self._refuse(path, "a route needs a base_url")
        fault = base_url_fault(value)
        if fault is not None:
            self._refuse(f"{path}.base_url", fault)
        return value.rstrip("/")

    def _refuse(self, path: str, message: str) -> NoReturn:
        where = path.removeprefix("$.")
        raise YamlFault(f"{where}: {message}", self._line(path))

    def _line(self, path: str) -> int:
        while path not in self._lines and "." in path:
            path = path.rpartition(".")[0]
        return self._lines.get(path, 1)


def base_url_fault(value: str) -> str | None:
    """What is wrong with an upstream's base URL, in words that do not repeat it; None when it can be used."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; use api_key"
    if parts.query or parts.fragment:
        return "must not have a query or a fragment"
    return None
