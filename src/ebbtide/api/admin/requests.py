"""The request log for administrators: its rows, newest first, and its figures in bars."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.log_rows import (
    FILTERS,
    MODEL,
    SOURCE,
    ContentObject,
    RequestObject,
    content_of,
    fields_of,
    page_of,
    row_of,
)
from ebbtide.api.parameters import OneOfParameter, TextParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.ids import log_id
from ebbtide.records import log_bars
from ebbtide.records.audit import Deed, add_audit
from ebbtide.records.log_bars import WINDOWS, Bar, Window
from ebbtide.records.log_read import LogRow

ACCOUNT = TextParameter("account_id", "Only the requests of this account")
WINDOW = OneOfParameter("window", tuple(window.name for window in WINDOWS), "Only this window")


class LogObject(RequestObject, frozen=True, kw_only=True):
    """A request as an administrator sees it: whose it was, and the route that answered it."""

    account_id: str
    account_name: str | None
    route: str | None


class LogDetail(LogObject, frozen=True, kw_only=True):
    """One request with what it said; `content` is null where that was not kept, or is not to be read now."""

    content: ContentObject | None


class BarObject(msgspec.Struct, frozen=True, kw_only=True):
    """Requests from `start_time` up to, not including, `end_time`: of the source asked for, and the batch worker's."""

    start_time: datetime
    end_time: datetime
    request_count: int
    error_count: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cost_usd: float
    cost_unknown_count: int
    batch_request_count: int
    batch_error_count: int


class WindowObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch that ends now, in bars; its totals are their sums."""

    window: str
    start_time: datetime
    end_time: datetime
    bar_seconds: int
    requests: int
    error_requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cost_usd: float
    cost_unknown_requests: int
    batch_requests: int
    batch_error_requests: int
    bars: list[BarObject]


class RequestMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What was requested, in several windows. `source` is null where every request counts."""

    object: Literal["request_metrics"] = "request_metrics"
    source: str | None
    windows: list[WindowObject]


async def list_requests(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await page_of(gateway, request, ACCOUNT.read(request))
    data = [_object(row) for row in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def get_request(gateway: Gateway, request: Request, principal: Principal) -> Response:
    row = await row_of(gateway, request)
    content = await content_of(gateway, row)
    if content is not None:
        deed = Deed(principal.actor, "request.content.read", log_id(row.at, row.id), row.account_id)
        async with gateway.database.transaction() as conn:
            await add_audit(conn, deed, gateway.clock.now())
    return answer_json(LogDetail(**fields_of(row), **_of_operator(row), content=content))


def _object(row: LogRow) -> LogObject:
    return LogObject(**fields_of(row), **_of_operator(row))


def _of_operator(row: LogRow) -> dict[str, Any]:
    return {"account_id": row.account_id, "account_name": row.account_name, "route": row.route}


async def request_metrics(gateway: Gateway, request: Request, principal: Principal) -> Response:
    source, model, name = SOURCE.read(request), MODEL.read(request), WINDOW.read(request)
    wanted = [window for window in WINDOWS if name in (None, window.name)]
    now = gateway.clock.now()
    figures = await log_bars.read_windows(gateway.database, wanted, now, log_bars.Which(source, model))
    windows = [_window(window, bars) for window, bars in figures]
    return answer_json(RequestMetrics(source=source, windows=windows))


def _window(window: Window, bars: list[Bar]) -> WindowObject:
    total = Bar(bars[0].start, bars[-1].end)
    for bar in bars:
        total = total.plus(bar)
    return WindowObject(
        window=window.name,
        start_time=total.start,
        end_time=total.end,
        bar_seconds=int(window.bar.total_seconds()),
        requests=total.asked.requests,
        error_requests=total.asked.errors,
        prompt_tokens=total.asked.input_tokens,
        cached_tokens=total.asked.cached_tokens,
        completion_tokens=total.asked.output_tokens,
        reasoning_tokens=total.asked.reasoning_tokens,
        cost_usd=float(total.asked.cost_usd),
        cost_unknown_requests=total.asked.cost_unknown,
        batch_requests=total.batch.requests,
        batch_error_requests=total.batch.errors,
        bars=[_bar(bar) for bar in bars],
    )


def _bar(bar: Bar) -> BarObject:
    return BarObject(
        start_time=bar.start,
        end_time=bar.end,
        request_count=bar.asked.requests,
        error_count=bar.asked.errors,
        prompt_tokens=bar.asked.input_tokens,
        cached_tokens=bar.asked.cached_tokens,
        completion_tokens=bar.asked.output_tokens,
        reasoning_tokens=bar.asked.reasoning_tokens,
        cost_usd=float(bar.asked.cost_usd),
        cost_unknown_count=bar.asked.cost_unknown,
        batch_request_count=bar.batch.requests,
        batch_error_count=bar.batch.errors,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/recent-requests",
        list_requests,
        "List the request log, newest first",
        Described(
            answer=ListPage[LogObject],
            parameters=(*FILTERS, ACCOUNT),
            errors=(400,),
        ),
    ),
    Admin(
        "GET",
        "/admin/recent-requests/{id}",
        get_request,
        "Get a row of the request log, with what was said where that is kept",
        Described(answer=LogDetail, errors=(404,)),
    ),
    Admin(
        "GET",
        "/admin/request-metrics",
        request_metrics,
        "Count requests, errors, tokens and cost over time",
        Described(answer=RequestMetrics, parameters=(SOURCE, MODEL, WINDOW), errors=(400,)),
    ),
)
