"""/user/batch-capabilities: what the caller may do with batches, within which limits, and with which models."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.directory import get_account
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB
from ebbtide.api.gateway import Gateway
from ebbtide.api.parts import RoleName
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches.intake import FILE_WINDOW_HOURS
from ebbtide.batches.overview import InUse, read_in_use
from ebbtide.catalog.model import Model, Pricing
from ebbtide.delivery.webhooks import get_webhook
from ebbtide.dialects.fields import MAX_CUSTOM_ID
from ebbtide.dialects.values import ENDPOINTS
from ebbtide.dispatch.carrying import refused_in_batches
from ebbtide.dispatch.translation import serves
from ebbtide.errors import NotFound, Unavailable
from ebbtide.settings.snapshot import Settings

_KIB = 1024


class TargetObject(msgspec.Struct, frozen=True):
    """An endpoint that a batch's requests may be for."""

    target: str
    url: str


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that is accepted or kept. 0: no limit, where that is said; sizes of the whole, uncompressed."""

    requests_per_batch: int
    create_body_bytes: int
    file_bytes: int
    line_bytes: int
    custom_id_characters: int
    result_bytes: int
    results_bytes_per_batch: int
    unfinished_batches: int
    unfinished_requests: int
    stored_file_bytes: int
    file_uploads_per_hour: int
    running_requests: int


class BatchInUse(msgspec.Struct, frozen=True, kw_only=True):
    """What counts against the limits now."""

    unfinished_batches: int
    unfinished_requests: int
    stored_file_bytes: int


class BatchPrices(msgspec.Struct, frozen=True, kw_only=True):
    """USD per million tokens of an interactive request; a batch's costs `batch_factor` times that."""

    input: float
    cached_input: float
    cache_write: float
    output: float
    batch_factor: float


class BatchCapableModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model by its canonical name. `available`: it has a route that batch work may use; `live`: one is in use now.

    `unsupported_fields` of a chat completion's or an embedding's body are what no such route can carry; where
    `unknown_fields` is false, nor can any carry a field that the gateway does not know.
    """

    id: str
    aliases: list[str]
    type: str
    targets: list[str]
    available: bool
    live: bool
    context_length: int | None
    max_output_tokens: int | None
    prices: BatchPrices
    unsupported_fields: list[str]
    unknown_fields: bool


class BatchCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller may do with batches. `role_may_submit` looks at the role only, not at quotas; `has_history` is
    whether there are batches or a webhook, null (as is `in_use`) when that could not be checked; `show_entry` whether
    to link to them. Windows are null where unstarted requests never expire.
    """

    object: Literal["batch_capabilities"] = "batch_capabilities"
    status: Literal["enabled", "disabled", "unavailable"]
    min_role: RoleName
    role_may_submit: bool
    has_history: bool | None
    show_entry: bool
    targets: list[TargetObject]
    limits: BatchLimits
    in_use: BatchInUse | None
    window_hours: int | None
    file_window_hours: int | None
    retention_days: int
    file_retention_days: int
    models: list[BatchCapableModel]


async def get_batch_capabilities(gateway: Gateway, request: Request, principal: Principal) -> Response:
    settings, store = gateway.settings.current, await _read_store(gateway, principal)
    needed, window = Role(settings.batch_min_role), settings.batch_completion_window_hours
    may, history = principal.role >= needed, None if store is None else store.has_history
    return answer_json(
        BatchCapabilities(
            status=_status(settings, store),
            min_role=needed.value,
            role_may_submit=may,
            has_history=history,
            show_entry=settings.batch_enabled and (may or history is not False),
            targets=[TargetObject(endpoint.target, endpoint.url) for endpoint in ENDPOINTS],
            limits=_limits(settings, _running(settings, principal, store)),
            in_use=None if store is None else _in_use(store.in_use),
            window_hours=window or None,
            file_window_hours=FILE_WINDOW_HOURS if window else None,
            retention_days=settings.batch_retention_days,
            file_retention_days=settings.batch_file_retention_days,
            models=[_model(model) for model in gateway.catalog.current.visible(principal.role)],
        )
    )


@dataclass(frozen=True)
class _Store:
    """What the database tells of the caller; `running` is the account's own cap, None where its role's holds."""

    running: int | None
    in_use: InUse
    has_history: bool


async def _read_store(gateway: Gateway, principal: Principal) -> _Store | None:
    """None while the database cannot be read."""
    try:
        account = await get_account(gateway.database, principal.account_id)
        in_use = await read_in_use(gateway.database, principal.account_id)
        history = in_use.has_batches or await _has_webhook(gateway, principal)
    except Unavailable:
        return None
    return _Store(account.batch_max_concurrency, in_use, history)


async def _has_webhook(gateway: Gateway, principal: Principal) -> bool:
    try:
        await get_webhook(gateway.database, principal)
    except NotFound:
        return False
    return True


def _status(settings: Settings, store: _Store | None) -> Literal["enabled", "disabled", "unavailable"]:
    if not settings.batch_enabled:
        return "disabled"
    return "unavailable" if store is None else "enabled"


def _running(settings: Settings, principal: Principal, store: _Store | None) -> int:
    own = None if store is None else store.running
    return settings.batch_role_concurrency(principal.role.value) if own is None else own


def _limits(settings: Settings, running: int) -> BatchLimits:
    return BatchLimits(
        requests_per_batch=settings.batch_max_requests,
        create_body_bytes=settings.batch_max_body_mb * MIB,
        file_bytes=settings.batch_max_body_mb * MIB,
        line_bytes=settings.batch_max_line_kb * _KIB,
        custom_id_characters=MAX_CUSTOM_ID,
        result_bytes=settings.batch_max_result_kb * _KIB,
        results_bytes_per_batch=settings.batch_max_results_mb_per_batch * MIB,
        unfinished_batches=settings.batch_max_active_per_user,
        unfinished_requests=settings.batch_max_queued_requests_per_user,
        stored_file_bytes=settings.batch_files_max_total_mb_per_user * MIB,
        file_uploads_per_hour=settings.batch_file_uploads_per_hour,
        running_requests=running,
    )


def _in_use(told: InUse) -> BatchInUse:
    return BatchInUse(
        unfinished_batches=told.batches, unfinished_requests=told.requests, stored_file_bytes=told.file_bytes
    )


def _model(model: Model) -> BatchCapableModel:
    targets = [
        endpoint.target
        for endpoint in ENDPOINTS
        if endpoint.model_type == model.type and serves(model, endpoint.target)
    ]
    refused = [refused_in_batches(model, target) for target in targets]
    fields = (field for one in refused for field in one.fields)
    return BatchCapableModel(
        id=model.id,
        aliases=list(model.aliases),
        type=model.type,
        targets=list(targets),
        available=model.has_batch_route,
        live=model.has_live_batch_route,
        context_length=model.context_length,
        max_output_tokens=model.max_output_tokens,
        prices=_prices(model.pricing, model.batch_price_factor),
        unsupported_fields=list(dict.fromkeys(fields)),
        unknown_fields=not any(one.others for one in refused),
    )


def _prices(pricing: Pricing, factor: Decimal) -> BatchPrices:
    return BatchPrices(
        input=float(pricing.input),
        cached_input=float(pricing.cached_input),
        cache_write=float(pricing.cache_write),
        output=float(pricing.output),
        batch_factor=float(factor),
    )


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        "/user/batch-capabilities",
        get_batch_capabilities,
        "What the caller may do with batches, within which limits and with which models",
        Described(answer=BatchCapabilities),
    ),
)
