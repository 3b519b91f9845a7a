"""/user/usage: what the caller's own account used, day by day, and what it may still spend."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts import spending
from ebbtide.accounts.quotas import next_midnight, next_month
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import DayParameter, IntegerParameter, OneOfParameter, TextParameter
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.errors import InvalidRequest
from ebbtide.records.log_read import KeyUse, ModelUse, list_usage

LONGEST = 90
DAYS = IntegerParameter("days", 30, 1, LONGEST, "How many days, the last one included")
FIRST = DayParameter("first_day", "The first UTC day, in place of `days`")
LAST = DayParameter("last_day", "The last UTC day; today unless told otherwise")
SOURCE = OneOfParameter("source", ("interactive", "batch"), "Only what callers sent, or only batch requests")
KEY = TextParameter("key_id", "Of the figures by key only this key's")
MODEL = TextParameter("model", "Of the figures by model only this model's, by its id")


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


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A UTC day or month that is not over: what was charged, the quota or budget for it (null: none), when it ends."""

    spent_usd: float
    limit_usd: float | None
    remaining_usd: float | None
    resets_at: datetime


class KeyPeriods(msgspec.Struct, frozen=True, kw_only=True):
    """A key's charges against its own budgets."""

    key_id: str
    key_name: str
    day: Period
    month: Period


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """Today and this month: the account's charges against its quotas, and each key's against its budgets."""

    day: Period
    month: Period
    keys: list[KeyPeriods]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """An account's use, newest day first: what was charged, by key, and the request log's figures, by model.
    `spending` is about now, whatever days were asked for.
    """

    object: Literal["usage"] = "usage"
    first_day: date
    last_day: date
    cost_usd: float
    keys: list[KeyUsage]
    models: list[ModelUsage]
    spending: Spending


async def read_usage(gateway: Gateway, request: Request, principal: Principal) -> Response:
    now = gateway.clock.now()
    first, last = _days(request, now.date())
    source, key_id, model = SOURCE.read(request), KEY.read(request), MODEL.read(request)
    keys, models = await list_usage(gateway.database, principal.account_id, first, last)
    keys = [use for use in keys if source in (None, use.source) and key_id in (None, use.key_id)]
    models = [use for use in models if source in (None, use.source) and model in (None, use.model)]
    return answer_json(
        Usage(
            first_day=first,
            last_day=last,
            cost_usd=float(sum(use.cost_usd for use in keys)),
            keys=[_key(use) for use in keys],
            models=[_model(use) for use in models],
            spending=await _read_spending(gateway, principal, now),
        )
    )


def _days(request: Request, today: date) -> tuple[date, date]:
    """The days asked for, both included."""
    first, last = FIRST.read(request), LAST.read(request) or today
    if first is None:
        first = max(last, date.min + timedelta(days=LONGEST)) - timedelta(days=DAYS.read(request) - 1)
    if not 0 <= (last - first).days < LONGEST:
        raise InvalidRequest(f"first_day must be at most {LONGEST - 1} days before last_day", param="first_day")
    return first, last


async def _read_spending(gateway: Gateway, principal: Principal, now: datetime) -> Spending:
    async with gateway.database.connection() as conn:
        whole = await spending.account_spending(conn, principal.account_id, now, gateway.settings.current)
        keys = await spending.key_spending(conn, principal.account_id, now)
    return Spending(
        **_periods(whole, now),
        keys=[KeyPeriods(key_id=key.key_id, key_name=key.name, **_periods(key.spending, now)) for key in keys],
    )


def _periods(told: spending.Spending, now: datetime) -> dict[str, Period]:
    return {
        "day": _period(told.spent_day, told.daily, next_midnight(now)),
        "month": _period(told.spent_month, told.monthly, next_month(now)),
    }


def _period(spent: Decimal, limit: Decimal | None, ends: datetime) -> Period:
    return Period(
        spent_usd=float(spent),
        limit_usd=None if limit is None else float(limit),
        remaining_usd=None if limit is None else float(max(limit - spent, Decimal(0))),
        resets_at=ends,
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
        Described(answer=Usage, parameters=(DAYS, FIRST, LAST, SOURCE, KEY, MODEL), errors=(400,)),
    ),
)
