"""/admin/audit: who changed what, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.errors import InvalidRequest
from ebbtide.ids import audit_id, audit_number
from ebbtide.records import audit
from ebbtide.records.audit import AuditEntry

AFTER = TextParameter("after", "The last_id of the page before, `audit_<number>`")
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Entries in a page")
ACCOUNT = TextParameter("account_id", "Only what was done to this account")


class AuditObject(msgspec.Struct, frozen=True):
    """One deed. `actor` is `<account id>/<key id>`, or `cli:<user>` for a command on the machine.

    `subject` is what it was done to, `account_id` the account it concerned, if it was one's; `detail` depends on the
    action and never holds a secret.
    """

    id: str
    at: datetime
    actor: str
    action: str
    subject: str
    account_id: str | None
    detail: dict[str, Any]
    object: Literal["audit_entry"] = "audit_entry"


async def list_audit(gateway: Gateway, request: Request, principal: Principal) -> Response:
    before, account_id, limit = _cursor(request), ACCOUNT.read(request), LIMIT.read(request)
    page = await audit.list_audit(gateway.database, before=before, account_id=account_id, limit=limit)
    data = [_object(entry) for entry in page.entries]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


def _cursor(request: Request) -> int | None:
    after = AFTER.read(request)
    if after is None:
        return None
    number = audit_number(after)
    if number is None:
        raise InvalidRequest("'after' must be the id of an entry, audit_<number>", param="after")
    return number


def _object(entry: AuditEntry) -> AuditObject:
    return AuditObject(
        id=audit_id(entry.id),
        at=entry.at,
        actor=entry.actor,
        action=entry.action,
        subject=entry.object,
        account_id=entry.account_id,
        detail=entry.detail,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/audit",
        list_audit,
        "List the audit log, newest first",
        Described(answer=ListPage[AuditObject], parameters=(AFTER, LIMIT, ACCOUNT), errors=(400,)),
    ),
)
