"""The request log on the wire, for administrators and for an account's own: filters, pages, rows, and what was said.

What was said is shown only while DB_STORE_FULL_CONTENT is on, and only of requests that it was on for.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request

from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import CursorParameter, IntegerParameter, OneOfParameter, TextParameter, TimeParameter
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.ids import log_id, log_place, result_id
from ebbtide.page import Page
from ebbtide.records import log_read
from ebbtide.records.content import get_content, open_content
from ebbtide.records.log_read import LONGEST_LOOKBACK, Filter, LogRow

SOURCE: Final = OneOfParameter("source", ("interactive", "batch"), "Only what callers sent, or only batch requests")
BATCH = TextParameter("batch_id", "Only the requests of this batch")
START = TimeParameter("start_time", "Rows from this moment on, as far back as 90 days, whatever the lookback")
END = TimeParameter("end_time", "Rows before this moment")
LOOKBACK = IntegerParameter(
    "lookback_hours", 24, 1, LONGEST_LOOKBACK // timedelta(hours=1), "How far back the list reaches"
)
KEY = TextParameter("key_id", "Only the requests that this API key paid for")
MODEL = TextParameter("model", "Only the requests to this model, by its id")
STATUS = IntegerParameter("status", 0, 0, 999, "Only rows with this HTTP status; 0 for any")
ERROR = TextParameter("error", "Only rows with this error code; `any` for all that failed, `none` for the others")
AFTER: Final = CursorParameter("after", "log_<time>_<number>", log_place)
LIMIT = IntegerParameter("limit", 50, 1, 500, "Rows in a page")
FILTERS: Final = (SOURCE, BATCH, START, END, LOOKBACK, KEY, MODEL, STATUS, ERROR, AFTER, LIMIT)


class RequestObject(msgspec.Struct, frozen=True, kw_only=True):
    """One request that a caller made, or one attempt of a batch's request. What is not known is null.

    `attempts` counts the upstream calls made for a caller's request. `batch_id`, `item_id`, `attempt` and `outcome`
    (`completed`, `failed`, `retried`, `queued`, `lost`) are there for batch requests alone.
    """

    id: str
    object: Literal["request"] = "request"
    at: datetime
    source: str
    request_id: str | None
    key_id: str
    key_name: str | None
    target: str
    model: str
    streamed: bool | None
    attempts: int | None
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


class ContentObject(msgspec.Struct, frozen=True, kw_only=True):
    """A request's body and its answer's, a stream's put together: as text, of each at most the first MiB.

    The sizes are those of the whole bodies; `truncated` tells that one is longer than what is kept.
    """

    request: str
    answer: str
    request_bytes: int
    answer_bytes: int
    truncated: bool


async def page_of(gateway: Gateway, request: Request, account_id: str | None) -> Page[LogRow]:
    """The page that a request asks for, of one account or of all. Raises InvalidRequest."""
    which, before = _filter(request, gateway.clock.now(), account_id), AFTER.read(request)
    return await log_read.list_requests(gateway.database, which, before, LIMIT.read(request))


async def row_of(gateway: Gateway, request: Request, account_id: str | None = None) -> LogRow:
    """The row that the path names, where it is of this account, or of any. Raises NotFound."""
    name = request.path_params["id"]
    place = log_place(name)
    row = None if place is None else await log_read.get_request(gateway.database, place, account_id)
    if row is None:
        raise NotFound(f"There is no request {name!r} in the log")
    return row


async def content_of(gateway: Gateway, row: LogRow) -> ContentObject | None:
    """What a request said, as far as it was kept and may be read."""
    if not gateway.settings.current.db_store_full_content or row.request_id is None or row.source != "interactive":
        return None
    async with gateway.database.connection() as conn:
        content = await get_content(conn, row.at, row.request_id)
    if content is None:
        return None
    said, answer = await asyncio.to_thread(open_content, content)
    return ContentObject(
        request=said.decode(errors="replace"),
        answer=answer.decode(errors="replace"),
        request_bytes=content.request_bytes,
        answer_bytes=content.answer_bytes,
        truncated=content.truncated,
    )


def fields_of(row: LogRow) -> dict[str, Any]:
    """The members of a RequestObject."""
    return {
        "id": log_id(row.at, row.id),
        "at": row.at,
        "source": row.source,
        "request_id": row.request_id,
        "key_id": row.key_id,
        "key_name": row.key_name,
        "target": row.target,
        "model": row.model,
        "streamed": row.streamed,
        "attempts": row.calls,
        "status": row.status_code,
        "error": row.error_code,
        "prompt_tokens": row.input_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.output_tokens,
        "reasoning_tokens": row.reasoning_tokens,
        "cost_usd": None if row.cost_usd is None else float(row.cost_usd),
        "first_token_ms": row.first_token_ms,
        "total_ms": row.total_ms,
        "batch_id": row.batch_job_id,
        "item_id": None if row.item is None else result_id(row.item),
        "attempt": row.attempt,
        "outcome": row.outcome,
    }


def _filter(request: Request, now: datetime, account_id: str | None) -> Filter:
    start, end = START.read(request), END.read(request)
    if start is not None and end is not None and end <= start:
        raise InvalidRequest("'end_time' must be later than 'start_time'", param="end_time")
    error = ERROR.read(request)
    return Filter(
        start=log_read.reach_back(now, timedelta(hours=LOOKBACK.read(request)), start),
        end=end,
        source=SOURCE.read(request),
        batch_id=BATCH.read(request),
        account_id=account_id,
        key_id=KEY.read(request),
        model=MODEL.read(request),
        status=STATUS.read(request) or None,
        error=None if error in ("any", "none") else error,
        failed={"any": True, "none": False}.get(error or ""),
    )
