"""/admin/batch/jobs/{batch_id}/requests: what a batch said and was answered, for administrators, while that is allowed.

Every look is in the audit log, against the batch's owner, before anything is shown.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.render import result_item
from ebbtide.api.parameters import CursorParameter, IntegerParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.batches.progress import get_batch
from ebbtide.batches.stored import StoredRequest, list_stored
from ebbtide.dialects.lines import line_body
from ebbtide.dialects.openai.batch import ListPage, ResultError, ResultResponse
from ebbtide.errors import Forbidden
from ebbtide.ids import result_number
from ebbtide.page import Page
from ebbtide.records.audit import Deed, add_audit

AFTER: Final = CursorParameter("after", "batch_req_<number>", result_number)
LIMIT = IntegerParameter("limit", 20, 1, 100, "Requests in a page, which also ends at about 8 MiB")


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a batch as it was submitted, with what became of it so far."""

    id: str
    object: Literal["batch_request"] = "batch_request"
    custom_id: str
    model: str
    status: str
    attempts: int
    request: msgspec.Raw
    response: ResultResponse | None
    error: ResultError | None


async def list_batch_requests(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, limit = AFTER.read(request), LIMIT.read(request)
    job = await get_batch(gateway.database, principal, request.path_params["batch_id"])
    if not gateway.settings.current.db_store_full_content:
        raise Forbidden(
            "This gateway keeps no prompts for administrators to read (DB_STORE_FULL_CONTENT is off)",
            code="content_not_stored",
        )
    deed = Deed(principal.actor, "batch.requests.read", job.id, job.account_id, {"after": after, "limit": limit})
    async with gateway.database.transaction() as conn:
        await add_audit(conn, deed, gateway.clock.now())
    page = await list_stored(gateway.database, job, after, limit)
    return Response(await asyncio.to_thread(_rendered, page), media_type="application/json")


def _rendered(page: Page[StoredRequest]) -> bytes:
    data = [_object(stored) for stored in page.items]
    return msgspec.json.encode(list_page(data, [one.id for one in data], page.has_more))


def _object(stored: StoredRequest) -> StoredObject:
    item = result_item(stored.result)
    return StoredObject(
        id=item.id,
        custom_id=item.custom_id,
        model=stored.model,
        status=item.status,
        attempts=stored.result.attempts,
        request=msgspec.Raw(line_body(stored.line, stored.model)),
        response=item.response,
        error=item.error,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/batch/jobs/{batch_id}/requests",
        list_batch_requests,
        "List a batch's stored requests with their answers",
        Described(answer=ListPage[StoredObject], parameters=(AFTER, LIMIT), errors=(400, 404)),
        batch=True,
    ),
)
