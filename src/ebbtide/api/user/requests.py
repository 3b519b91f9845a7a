"""/user/requests: the request log of the caller's own account, and what its requests said where that is kept."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.log_rows import FILTERS, ContentObject, RequestObject, content_of, fields_of, page_of, row_of
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage


class RequestDetail(RequestObject, frozen=True, kw_only=True):
    """One of your requests with what it said; `content` is null where that was not kept, or is not to be read now."""

    content: ContentObject | None


async def list_user_requests(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await page_of(gateway, request, principal.account_id)
    data = [RequestObject(**fields_of(row)) for row in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def get_user_request(gateway: Gateway, request: Request, principal: Principal) -> Response:
    row = await row_of(gateway, request, principal.account_id)
    return answer_json(RequestDetail(**fields_of(row), content=await content_of(gateway, row)))


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "GET",
        "/user/requests",
        list_user_requests,
        "List your own requests, newest first",
        Described(answer=ListPage[RequestObject], parameters=FILTERS, errors=(400,)),
    ),
    Closed(
        "GET",
        "/user/requests/{id}",
        get_user_request,
        "Get one of your requests, with what was said where that is kept",
        Described(answer=RequestDetail, errors=(404,)),
    ),
)
