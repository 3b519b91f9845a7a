"""What makes one request of a batch good: its shape, its target, its model. Pure; the same for both input methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.accounts.roles import Role
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, is_auto_name
from ebbtide.dialects.gemini import batch as gemini
from ebbtide.dialects.openai.faults import with_name
from ebbtide.dialects.openai.requests import parse_line
from ebbtide.dialects.targets import CALLERS
from ebbtide.dialects.values import ENDPOINT_AT, ENDPOINT_FOR, Target, Terms
from ebbtide.errors import InvalidRequest

Carries = Callable[[Model, Target, dict[str, object], Terms], None]

ROUTE_UNAVAILABLE = "batch_route_unavailable"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a batch's requests are held to. `endpoint` None: the first request sets it. `one_model`: files only.

    `carries` raises InvalidRequest for a body that no route of the model for batch work can carry.
    """

    catalog: Catalog
    role: Role
    endpoint: str | None
    one_model: bool
    terms: Terms
    carries: Carries


@dataclass(frozen=True, slots=True)
class Checked:
    """A good request: its custom_id, its canonical model, and the most output tokens it allows, where it says."""

    custom_id: str
    model: str
    max_tokens: int | None


class RequestChecker:
    """Checks the requests of one batch in order; remembers what must be unique or the same across them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._seen: set[str] = set()
        self._models: dict[str, Model] = {}
        self._first_model: str | None = None
        self.endpoint = rules.endpoint

    @property
    def target(self) -> Target:
        """The target all requests share; known once one was checked."""
        assert self.endpoint is not None
        return ENDPOINT_AT[self.endpoint].target

    def check(self, raw: bytes | memoryview) -> Checked:
        """What one request says; raises InvalidRequest, which remembers the custom_id where it is known."""
        line = parse_line(raw, require_url=self._rules.endpoint is not None)
        try:
            self._check_url(line.url)
            self._check_unique(line.custom_id)
            body = CALLERS[self.target].check_batch_body(line.body, self._rules.terms)
            model = self._model_of(body.model)
            self._rules.carries(model, self.target, line.body, self._rules.terms)
            return Checked(line.custom_id, model.id, body.max_tokens)
        except InvalidRequest as error:
            raise with_name(error, line.custom_id) from None

    def _check_url(self, url: str) -> None:
        if self.endpoint is None:
            if url not in ENDPOINT_AT:
                raise InvalidRequest(f"url must be one of {', '.join(ENDPOINT_AT)}", code="url_mismatch", param="url")
            self.endpoint = url
        elif url != self.endpoint:
            expected = "the batch's endpoint" if self._rules.endpoint else "the url of the requests before it"
            raise InvalidRequest(f"url must be {self.endpoint}, {expected}", code="url_mismatch", param="url")

    def _check_unique(self, custom_id: str) -> None:
        if custom_id in self._seen:
            raise InvalidRequest("custom_id is used twice", code="duplicate_custom_id", param="custom_id")
        self._seen.add(custom_id)

    def _model_of(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = resolve_for_batch(self._rules, name, self.target)
        if self._rules.one_model and model.id != (self._first_model or model.id):
            raise InvalidRequest("Every line of a file must use the same model", code="model_mismatch", param="model")
        self._first_model = model.id
        return model


class GeminiChecker:
    """Checks the lines of a file that came through Gemini's API, all for one model, as RequestChecker does others."""

    def __init__(self, rules: Rules, target: Target, model: str) -> None:
        self._rules = rules
        self._target = target
        self._model = model
        self._seen: set[str] = set()

    def check(self, raw: bytes | memoryview) -> Checked:
        """What one line says. Raises InvalidRequest."""
        line = gemini.parse_line(raw)
        if line.key in self._seen:
            raise InvalidRequest("key is used twice", code="duplicate_custom_id", param="key")
        self._seen.add(line.key)
        return Checked(line.key, *check_gemini(self._rules, (self._target, self._model), line.request))


def check_gemini(rules: Rules, ask: tuple[Target, str], request: dict[str, object]) -> tuple[str, int | None]:
    """The model of a request for a target and a model by name, and the most it may write. Raises InvalidRequest."""
    target, name = ask
    given = request.get("model")
    if given is not None and given not in (name, f"models/{name}"):
        raise InvalidRequest("model: is another than the batch's", param="model")
    model, body = resolve_for_batch(rules, name, target), request | {"model": name}
    most = CALLERS[target].check_batch_body(body, rules.terms).max_tokens
    rules.carries(model, target, body, rules.terms)
    return model.id, most


def resolve_for_batch(rules: Rules, name: str, target: Target) -> Model:
    """The model behind a name; raises InvalidRequest when a batch cannot use it for this target."""
    if is_auto_name(name):
        raise InvalidRequest(
            f"Model '{name}' chooses a model for each request and cannot be used in a batch; name a specific model",
            param="model",
        )
    model = rules.catalog.usable(name, rules.role)
    if model is None:
        raise InvalidRequest(f"Model '{name}' not found", code="model_not_found", param="model")
    if model.type != ENDPOINT_FOR[target].model_type:
        serves = "embeddings" if model.type == "embedding" else "chat completions"
        raise InvalidRequest(f"Model '{name}' serves {serves} only", param="model")
    if not model.has_batch_route:
        raise InvalidRequest(
            f"Model '{name}' has no route that batch work may use", code=ROUTE_UNAVAILABLE, param="model"
        )
    return model
