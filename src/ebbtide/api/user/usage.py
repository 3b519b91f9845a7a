"""/user/usage: what the caller's own account used, day by day."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import IntegerParameter
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.records.log_read import KeyUse, ModelUse, list_usage

DAYS = IntegerParameter("days", 30, 1, 90, "How many days, today included")


class KeyUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one key was charged on one UTC day. A request whose cost is not known is in none of these sums."""

    day: date
    key_id: str
    key_name: str | None
    source: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float


class ModelUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to one model used on one UTC day; of a batch's request, each try counts."""

    day: date
    model: str
    source: str
    requests: int
    error_requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cost_usd: float
    cost_unknown_requests: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """An account's use, newest day first: what was charged, by key, and the request log's figures, by model."""

    object: Literal["usage"] = "usage"
    first_day: date
    last_day: date
    cost_usd: float
    keys: list[KeyUsage]
    models: list[ModelUsage]


async def read_usage(gateway: Gateway, request: Request, principal: Principal) -> Response:
    last = gateway.clock.now().date()
    first = last - timedelta(days=DAYS.read(request) - 1)
    keys, models = await list_usage(gateway.database, principal.account_id, first, last)
    return answer_json(
        Usage(
            first_day=first,
            last_day=last,
            cost_usd=float(sum(use.cost_usd for use in keys)),
            keys=[_key(use) for use in keys],
            models=[_model(use) for use in models],
        )
    )


def _key(use: KeyUse) -> KeyUsage:
    return KeyUsage(
        day=use.day,
        key_id=use.key_id,
        key_name=use.key_name,
        source=use.source,
        requests=use.requests,
        prompt_tokens=use.input_tokens,
        completion_tokens=use.output_tokens,
        cost_usd=float(use.cost_usd),
    )


def _model(use: ModelUse) -> ModelUsage:
    return ModelUsage(
        day=use.day,
        model=use.model,
        source=use.source,
        requests=use.figures.requests,
        error_requests=use.figures.errors,
        prompt_tokens=use.figures.input_tokens,
        cached_tokens=use.figures.cached_tokens,
        completion_tokens=use.figures.output_tokens,
        reasoning_tokens=use.figures.reasoning_tokens,
        cost_usd=float(use.figures.cost_usd),
        cost_unknown_requests=use.figures.cost_unknown,
    )


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        "/user/usage",
        read_usage,
        "Tell what the own account used, day by day",
        Described(answer=Usage, parameters=(DAYS,), errors=(400,)),
    ),
)
