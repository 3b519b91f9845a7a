"""The form of the models file, key for key; an unknown key is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ebbtide.accounts.roles import Role
from ebbtide.catalog.model import DeploymentType, Kind, ModelType

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Tokens = Annotated[int, Meta(ge=1, le=1_000_000_000)]

Spoken = Literal["chat", "embeddings", "responses", "messages", "count_tokens"]


class PricingEntry(Struct, frozen=True, forbid_unknown_fields=True):
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None


class RouteEntry(Struct, frozen=True, forbid_unknown_fields=True):
    id: Name
    kind: Kind
    base_url: str | None = None
    model: Name | None = None
    api_key: Annotated[str, Meta(min_length=1)] | None = None
    api_keys: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=1_000)] | None = None
    weight: Annotated[float, Meta(ge=0)] = 1.0
    deployment_type: DeploymentType = "auto"
    latency: Annotated[float, Meta(ge=0, le=3600)] | None = None
    api_version: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,32}$")] | None = None
    priority_scheduling: bool = False
    max_concurrency: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    reserve: bool = False
    speaks: Annotated[list[Spoken], Meta(min_length=1)] | None = None


class TimeoutsEntry(Struct, frozen=True, forbid_unknown_fields=True):
    connect: Seconds | None = None
    first_byte: Seconds | None = None
    gap: Seconds | None = None
    total: Seconds | None = None


class ModelEntry(Struct, frozen=True, forbid_unknown_fields=True):
    id: Name
    routes: Annotated[list[RouteEntry], Meta(min_length=1)]
    type: ModelType = "chat"
    aliases: list[Name] = []
    context_length: Tokens | None = None
    max_output_tokens: Tokens | None = None
    min_role: Role = Role.FREE
    pricing: PricingEntry | None = None
    batch_price_factor: Decimal = Decimal(1)
    timeouts: TimeoutsEntry | None = None
    hedge_after: Seconds | None = None


class ModelsFile(Struct, frozen=True, forbid_unknown_fields=True):
    models: list[ModelEntry]
    auto: dict[str, list[str]] = {}
