"""/admin/purges: accounts that are being removed for good, or were, and how far that is."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts import purges
from ebbtide.accounts.purges import Purge
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage

AFTER = TextParameter("after", "The last_id of the page before")
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Entries in a page")


class AccountPurge(msgspec.Struct, frozen=True):
    """The removal of an account (`id`), as of a worker's last look: `waiting` for what `waits_for` names, `purging` or
    `purged`.

    `waits_for` holds `running_requests`, `sealing`, `readers` (downloads), `webhook_delivery`, `interactive_requests`,
    and `newer_release` for batches that only a newer release may remove.
    """

    id: str
    state: Literal["waiting", "purging", "purged"]
    asked_at: datetime
    asked_by: str
    waits_for: list[str]
    batches_left: int
    files_left: int
    rows_removed: int
    finished_at: datetime | None
    object: Literal["account.purge"] = "account.purge"


async def list_purges(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await purges.page_purges(gateway.database, AFTER.read(request), LIMIT.read(request))
    data = [purge_object(purge) for purge in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def get_purge(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(purge_object(await purges.get_purge(gateway.database, request.path_params["id"])))


def purge_object(purge: Purge) -> AccountPurge:
    return AccountPurge(
        id=purge.account_id,
        state=purge.state,
        asked_at=purge.asked_at,
        asked_by=purge.asked_by,
        waits_for=list(purge.waits_for),
        batches_left=purge.batches_left,
        files_left=purge.files_left,
        rows_removed=purge.rows_removed,
        finished_at=purge.finished_at,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/purges",
        list_purges,
        "List the accounts removed for good, the last asked for first",
        Described(answer=ListPage[AccountPurge], parameters=(AFTER, LIMIT), errors=(400,)),
    ),
    Admin(
        "GET",
        "/admin/purges/{id}",
        get_purge,
        "Tell how far an account's removal is",
        Described(answer=AccountPurge, errors=(404,)),
    ),
)
