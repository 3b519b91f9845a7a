"""What a model is once it is configured: its names, prices and role, and the routes that serve it.

Everything here is frozen; a change of the configuration makes a whole new catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from ebbtide.accounts.roles import Role
from ebbtide.dialects.values import Wire

Kind = Literal["openai", "vllm", "sglang", "llamacpp", "ollama", "anthropic", "gemini", "standin"]
DeploymentType = Literal["auto", "self_hosted", "provider_api"]
ModelType = Literal["chat", "embedding"]

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal"})


class Rates(NamedTuple):
    """Picodollars for one token."""

    input: int
    output: int
    cached_input: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class Pricing:
    """USD per million tokens, each with at most six decimals; a token then costs whole picodollars (1e-12 USD), which
    `rates` holds.
    """

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal
    rates: Rates = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        prices = (self.input, self.output, self.cached_input, self.cache_write)
        object.__setattr__(self, "rates", Rates(*(int(price.scaleb(6)) for price in prices)))


FREE = Pricing(Decimal(0), Decimal(0), Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Route:
    """A model at an upstream. Compared by identity: the dispatcher prepares each one once.

    `base_url` is empty for the stand-in alone, which waits `latency` seconds before it answers. `api_keys` are taken in
    turn. At most `max_concurrency` calls run at once, None for no limit; a `reserve` one serves only while no other
    can. `api_version` is the API's, for anthropic and gemini; `priority_scheduling`: the engine runs requests by their
    `priority`. `speaks`: the forms its server speaks, the preferred ones first; None for those of its kind. What an
    administrator chose (ebbtide.catalog.policies): `batch_choice`, None where there is none; `enabled`; and a `weight`
    of theirs, of which `configured_weight` is then the one that it replaces.
    """

    id: str
    kind: Kind
    model: str
    base_url: str = ""
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    weight: float = 1.0
    deployment_type: DeploymentType = "auto"
    latency: float = 0.0
    max_concurrency: int | None = None
    reserve: bool = False
    api_version: str | None = None
    priority_scheduling: bool = False
    speaks: tuple[Wire, ...] | None = None
    batch_choice: bool | None = None
    enabled: bool = True
    configured_weight: float | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether calls may go to it at the moment."""
        return self.enabled and self.weight > 0

    @property
    def is_local(self) -> bool:
        """Whether the server is one that the operator runs: said so, or `auto` on a host of this machine."""
        if self.deployment_type != "auto":
            return self.deployment_type == "self_hosted"
        return self.kind == "standin" or _names_this_machine(self.base_url)

    @property
    def batch_allowed(self) -> bool:
        """Whether batch work may use the route: as an administrator chose, else local routes only."""
        return self.is_local if self.batch_choice is None else self.batch_choice

    @property
    def host(self) -> str | None:
        """The host of its server; None for the stand-in."""
        return urlsplit(self.base_url).hostname


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds that a model's calls may take, each None where the model has no own: to connect, until an answer begins,
    between two pieces of a stream, in all.
    """

    connect: float | None = None
    first_byte: float | None = None
    gap: float | None = None
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """One model as callers name it. `context_length` and `max_output_tokens` in tokens, None where not stated.

    After `hedge_after` seconds without an answer's beginning, a second route is asked too; None: never.
    """

    id: str
    type: ModelType
    routes: tuple[Route, ...]
    aliases: tuple[str, ...] = ()
    context_length: int | None = None
    max_output_tokens: int | None = None
    min_role: Role = Role.FREE
    pricing: Pricing = FREE
    batch_price_factor: Decimal = Decimal(1)
    time_limits: TimeLimits | None = None
    hedge_after: float | None = None

    @property
    def has_live_batch_route(self) -> bool:
        """Whether any of them is in use at the moment."""
        return any(route.batch_allowed and route.is_in_use for route in self.routes)

    @property
    def has_batch_route(self) -> bool:
        """Whether any route may carry batch work, whatever its weight at the moment."""
        return any(route.batch_allowed for route in self.routes)


@cache
def _names_this_machine(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL_HOSTS


def is_auto_name(name: str) -> bool:
    """Whether `name` is kept for the automatic choice of a model (`auto`, `auto-<tier>`)."""
    return name == "auto" or name.startswith("auto-")
