"""/user/batches: the console's view of batches, which it searches by name and group, and of one's requests and errors.

Requests and answers are shown to their owner. To an administrator who looks at somebody else's they are shown only
while DB_STORE_FULL_CONTENT is on, and every look is in the audit log; otherwise their outcome alone is.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.files import JSONL
from ebbtide.api.openai.render import InputMethod, batch_object, input_method, result_item
from ebbtide.api.parameters import CursorParameter, IntegerParameter, OneOfParameter, TextParameter
from ebbtide.api.ranges import content_disposition
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches import browse
from ebbtide.batches.browse import GROUPS, OUTCOMES, Browse, ItemBrowse, NamedJob
from ebbtide.batches.model import Job
from ebbtide.batches.progress import get_batch
from ebbtide.batches.stored import StoredRequest
from ebbtide.batches.unfinished import check_exportable, export_unfinished
from ebbtide.delivery.export import check_ended
from ebbtide.dialects.lines import line_body
from ebbtide.dialects.openai.batch import BatchObject, ListPage, ResultError, ResultResponse
from ebbtide.errors import NotFound
from ebbtide.ids import result_number
from ebbtide.page import Page
from ebbtide.records.audit import Deed, add_audit

AFTER = TextParameter("after", "The last_id of the page before")
LIMIT = IntegerParameter("limit", 20, 1, 100, "Batches in a page")
GROUP = OneOfParameter("group", GROUPS, "Only batches shown as this")
SEARCH = TextParameter("search", "A part of the name or of the id")
AFTER_ITEM: Final = CursorParameter("after", "batch_req_<number>", result_number)
LIMIT_ITEMS = IntegerParameter("limit", 20, 1, 100, "Requests in a page, which also ends at about 8 MiB")
OUTCOME = OneOfParameter("outcome", tuple(OUTCOMES), "Only requests with this outcome")
SEARCH_ITEMS = TextParameter("search", "A part of the custom_id")


class UserBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as the console lists it. `name` was given in the console, or is the one in its metadata."""

    id: str
    object: Literal["user_batch"] = "user_batch"
    name: str | None
    target: str
    input_method: InputMethod
    own: bool
    content_shown: bool
    batch: BatchObject


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a batch: what it said and was answered, null where that may not be shown."""

    id: str
    object: Literal["user_batch_request"] = "user_batch_request"
    custom_id: str
    model: str
    status: str
    attempts: int
    request: msgspec.Raw | None
    response: ResultResponse | None
    error: ResultError | None


class BatchErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that ended alike without an answer; `custom_id` and `message` are those of the first of them."""

    outcome: Literal["failed", "expired", "cancelled"]
    code: str | None
    status: int | None
    requests: int
    custom_id: str
    message: str | None


class BatchErrorGroups(msgspec.Struct, frozen=True):
    data: list[BatchErrorGroup]
    object: Literal["list"] = "list"


async def list_user_batches(gateway: Gateway, request: Request, principal: Principal) -> Response:
    wanted = Browse(
        principal.account_id, AFTER.read(request), GROUP.read(request), SEARCH.read(request), LIMIT.read(request)
    )
    page = await browse.browse_batches(gateway.database, wanted, gateway.moment())
    data = [_batch(gateway, principal, named) for named in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def get_user_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await _job(gateway, request, principal)
    return answer_json(_batch(gateway, principal, NamedJob(job, await browse.batch_name(gateway.database, job))))


async def list_user_batch_requests(gateway: Gateway, request: Request, principal: Principal) -> Response:
    wanted = ItemBrowse(
        AFTER_ITEM.read(request), OUTCOME.read(request), SEARCH_ITEMS.read(request), LIMIT_ITEMS.read(request)
    )
    job = await _job(gateway, request, principal)
    shown = _shows_content(gateway, principal, job)
    if shown and job.account_id != principal.account_id:
        deed = Deed(principal.actor, "batch.requests.read", job.id, job.account_id, {"after": wanted.after})
        async with gateway.database.transaction() as conn:
            await add_audit(conn, deed, gateway.clock.now())
    page = await browse.browse_items(gateway.database, job, wanted)
    return Response(await asyncio.to_thread(_rendered, page, shown), media_type="application/json")


async def export_user_batch_unfinished(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await _job(gateway, request, principal)
    if job.account_id != principal.account_id:
        raise NotFound(f"No such batch: {job.id}")
    check_ended(job)
    check_exportable(job)
    headers = {"content-type": JSONL, "content-disposition": content_disposition(f"{job.id}_unfinished.jsonl")}
    longest = gateway.settings.current.stream_request_timeout_seconds
    return Streamed(export_unfinished(gateway.database, job, longest), headers=headers)


async def count_user_batch_errors(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await _job(gateway, request, principal)
    groups = await browse.count_errors(gateway.database, job)
    data = [
        BatchErrorGroup(
            outcome=cast('Literal["failed", "expired", "cancelled"]', group.state),
            code=group.code,
            status=group.status,
            requests=group.requests,
            custom_id=group.custom_id,
            message=group.message,
        )
        for group in groups
    ]
    return answer_json(BatchErrorGroups(data))


async def _job(gateway: Gateway, request: Request, principal: Principal) -> Job:
    return await get_batch(gateway.database, principal, request.path_params["id"], gateway.moment())


def _shows_content(gateway: Gateway, principal: Principal, job: Job) -> bool:
    return job.account_id == principal.account_id or gateway.settings.current.db_store_full_content


def _batch(gateway: Gateway, principal: Principal, named: NamedJob) -> UserBatch:
    job = named.job
    return UserBatch(
        id=job.id,
        name=named.name,
        target=job.target,
        input_method=input_method(job),
        own=job.account_id == principal.account_id,
        content_shown=_shows_content(gateway, principal, job),
        batch=batch_object(job),
    )


def _rendered(page: Page[StoredRequest], shown: bool) -> bytes:
    data = [_request(stored, shown) for stored in page.items]
    return msgspec.json.encode(list_page(data, [one.id for one in data], page.has_more))


def _request(stored: StoredRequest, shown: bool) -> BatchRequest:
    item = result_item(stored.result)
    return BatchRequest(
        id=item.id,
        custom_id=item.custom_id,
        model=stored.model,
        status=item.status,
        attempts=stored.result.attempts,
        request=msgspec.Raw(line_body(stored.line, stored.model)) if shown else None,
        response=item.response if shown else None,
        error=item.error,
    )


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        "/user/batches",
        list_user_batches,
        "Search your batches, newest first",
        Described(answer=ListPage[UserBatch], parameters=(AFTER, LIMIT, GROUP, SEARCH), errors=(400,)),
        batch=True,
    ),
    Closed(
        "GET",
        "/user/batches/{id}",
        get_user_batch,
        "Get a batch with its name, and how it came",
        Described(answer=UserBatch, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        "/user/batches/{id}/requests",
        list_user_batch_requests,
        "Search a batch's requests, with their answers",
        Described(
            answer=ListPage[BatchRequest],
            parameters=(AFTER_ITEM, LIMIT_ITEMS, OUTCOME, SEARCH_ITEMS),
            errors=(400, 404),
        ),
        batch=True,
    ),
    Closed(
        "GET",
        "/user/batches/{id}/errors",
        count_user_batch_errors,
        "Count a batch's requests without an answer, by error",
        Described(answer=BatchErrorGroups, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        "/user/batches/{id}/unfinished.jsonl",
        export_user_batch_unfinished,
        "Export an ended batch's failed, expired and cancelled requests as an input file",
        Described(answer=JSONL, errors=(400, 404, 409)),
        batch=True,
    ),
)
