"""The request log for administrators: its rows, newest first, and its figures in bars."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import CursorParameter, IntegerParameter, OneOfParameter, TextParameter, TimeParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.errors import InvalidRequest
from ebbtide.ids import log_id, log_place, result_id
from ebbtide.records import log_bars, log_read
from ebbtide.records.log_bars import WINDOWS, Bar, Window
from ebbtide.records.log_read import LONGEST_LOOKBACK, Filter, LogRow

Source = Literal["interactive", "batch"]
SOURCE: Final = OneOfParameter("source", ("interactive", "batch"), "Only what callers sent, or only batch requests")
BATCH = TextParameter("batch_id", "Only the requests of this batch")
START = TimeParameter("start_time", "Rows from this moment on, as far back as 90 days, whatever the lookback")
END = TimeParameter("end_time", "Rows before this moment")
LOOKBACK = IntegerParameter(
    "lookback_hours", 24, 1, LONGEST_LOOKBACK // timedelta(hours=1), "How far back the list reaches"
)
ACCOUNT = TextParameter("account_id", "Only the requests of this account")
MODEL = TextParameter("model", "Only the requests to this model, by its id")
STATUS = IntegerParameter("status", 0, 0, 999, "Only rows with this HTTP status; 0 for any")
ERROR = TextParameter("error", "Only rows with this error code; `any` for all that failed, `none` for the others")
AFTER: Final = CursorParameter("after", "log_<time>_<number>", log_place)
LIMIT = IntegerParameter("limit", 50, 1, 500, "Rows in a page")
WINDOW = OneOfParameter("window", tuple(window.name for window in WINDOWS), "Only this window")


class LogObject(msgspec.Struct, frozen=True, kw_only=True):
    """One request that a caller made, or one attempt of a batch's request. What is not known is null.

    `attempts` counts the upstream calls made for it. `batch_id`, `item_id`, `attempt` and `outcome` (`completed`,
    `failed`, `retried`, `queued`, `lost`) are there for batch requests alone.
    """

    id: str
    object: Literal["request"] = "request"
    at: datetime
    source: str
    request_id: str | None
    account_id: str
    account_name: str | None
    key_id: str
    key_name: str | None
    target: str
    model: str
    route: str | None
    attempts: int
    status: int | None
    error: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    first_token_ms: int | None
    total_ms: int | None
    batch_id: str | None
    item_id: str | None
    attempt: int | None
    outcome: str | None


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
    which, before = _filter(request, gateway.clock.now()), AFTER.read(request)
    page = await log_read.list_requests(gateway.database, which, before, LIMIT.read(request))
    data = [_object(row) for row in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def request_metrics(gateway: Gateway, request: Request, principal: Principal) -> Response:
    source, model, name = SOURCE.read(request), MODEL.read(request), WINDOW.read(request)
    wanted = [window for window in WINDOWS if name in (None, window.name)]
    now = gateway.clock.now()
    figures = await log_bars.read_windows(gateway.database, wanted, now, log_bars.Which(source, model))
    windows = [_window(window, bars) for window, bars in figures]
    return answer_json(RequestMetrics(source=source, windows=windows))


def _filter(request: Request, now: datetime) -> Filter:
    start, end = START.read(request), END.read(request)
    if start is not None and end is not None and end <= start:
        raise InvalidRequest("'end_time' must be later than 'start_time'", param="end_time")
    error = ERROR.read(request)
    return Filter(
        start=log_read.reach_back(now, timedelta(hours=LOOKBACK.read(request)), start),
        end=end,
        source=SOURCE.read(request),
        batch_id=BATCH.read(request),
        account_id=ACCOUNT.read(request),
        model=MODEL.read(request),
        status=STATUS.read(request) or None,
        error=None if error in ("any", "none") else error,
        failed={"any": True, "none": False}.get(error or ""),
    )


def _object(row: LogRow) -> LogObject:
    return LogObject(
        id=log_id(row.at, row.id),
        at=row.at,
        source=row.source,
        request_id=row.request_id,
        account_id=row.account_id,
        account_name=row.account_name,
        key_id=row.key_id,
        key_name=row.key_name,
        target=row.target,
        model=row.model,
        route=row.route,
        attempts=row.calls,
        status=row.status_code,
        error=row.error_code,
        prompt_tokens=row.input_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.output_tokens,
        reasoning_tokens=row.reasoning_tokens,
        cost_usd=None if row.cost_usd is None else float(row.cost_usd),
        first_token_ms=row.first_token_ms,
        total_ms=row.total_ms,
        batch_id=row.batch_job_id,
        item_id=None if row.item is None else result_id(row.item),
        attempt=row.attempt,
        outcome=row.outcome,
    )


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
            parameters=(SOURCE, BATCH, START, END, LOOKBACK, ACCOUNT, MODEL, STATUS, ERROR, AFTER, LIMIT),
            errors=(400,),
        ),
    ),
    Admin(
        "GET",
        "/admin/request-metrics",
        request_metrics,
        "Count requests, errors, tokens and cost over time",
        Described(answer=RequestMetrics, parameters=(SOURCE, MODEL, WINDOW), errors=(400,)),
    ),
)
