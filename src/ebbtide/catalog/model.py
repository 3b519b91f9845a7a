"""What a model is once it is configured: its names, prices and role, and the routes that serve it.

Everything here is frozen; a change of the configuration makes a whole new catalog.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Literal
from urllib.parse import urlsplit

from ebbtide.accounts.roles import Role

Kind = Literal["openai", "vllm", "sglang", "llamacpp", "ollama", "anthropic", "gemini", "standin"]
DeploymentType = Literal["auto", "self_hosted", "provider_api"]
ModelType = Literal["chat", "embedding"]

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal"})


@dataclass(frozen=True, slots=True)
class Pricing:
    """USD per million tokens, each with at most six decimals."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal


FREE = Pricing(Decimal(0), Decimal(0), Decimal(0), Decimal(0))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Route:
    """A model at an upstream. Compared by identity: the dispatcher prepares each one once.

    `base_url` is empty for the stand-in alone, which waits `latency` seconds before it answers. `batch_choice` is an
    administrator's, None where there is none (ebbtide.catalog.policies).
    """

    id: str
    kind: Kind
    model: str
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    weight: float = 1.0
    deployment_type: DeploymentType = "auto"
    latency: float = 0.0
    batch_choice: bool | None = None

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
class Model:
    """One model as callers name it. `context_length` and `max_output_tokens` in tokens, None where not stated."""

    id: str
    type: ModelType
    routes: tuple[Route, ...]
    aliases: tuple[str, ...] = ()
    context_length: int | None = None
    max_output_tokens: int | None = None
    min_role: Role = Role.FREE
    pricing: Pricing = FREE
    batch_price_factor: Decimal = Decimal(1)

    @property
    def has_live_batch_route(self) -> bool:
        """Whether any of them is in use at the moment."""
        return any(route.batch_allowed and route.weight > 0 for route in self.routes)

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
