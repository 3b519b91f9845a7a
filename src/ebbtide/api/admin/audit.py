"""/admin/audit: who changed what, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.directory import account_owners
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import CursorParameter, IntegerParameter, TextParameter, TimeParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.ids import audit_id, audit_number
from ebbtide.records import audit
from ebbtide.records.audit import AuditEntry, AuditFilter

AFTER: Final = CursorParameter("after", "audit_<number>", audit_number)
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Entries in a page")
ACCOUNT = TextParameter("account_id", "Only what was done to this account")
ACTOR = TextParameter("actor", "Only what this one did: `<account id>/<key id>`, `cli:<user>`, an account id")
ACTION = TextParameter("action", "Only this action, such as `key.create`, or all of a kind, such as `key`")
SUBJECT = TextParameter("subject", "Only what was done to this thing")
START = TimeParameter("start_time", "Entries from this moment on")
END = TimeParameter("end_time", "Entries before this moment")
_FILTERS = (AFTER, LIMIT, ACCOUNT, ACTOR, ACTION, SUBJECT, START, END)


class AuditObject(msgspec.Struct, frozen=True):
    """One deed. `actor` is `<account id>/<key id>`, or `cli:<user>` for a command on the machine.

    `subject` is what it was done to, `account_id` the account it concerned, if it was one's; the names are those of
    accounts, null where it is none or it was removed for good. `detail` depends on the action and never holds a secret.
    """

    id: str
    at: datetime
    actor: str
    actor_name: str | None
    action: str
    subject: str
    subject_name: str | None
    account_id: str | None
    account_name: str | None
    detail: dict[str, Any]
    object: Literal["audit_entry"] = "audit_entry"


async def list_audit(gateway: Gateway, request: Request, principal: Principal) -> Response:
    which = AuditFilter(
        account_id=ACCOUNT.read(request),
        actor=ACTOR.read(request),
        action=ACTION.read(request),
        object=SUBJECT.read(request),
        start=START.read(request),
        end=END.read(request),
    )
    page = await audit.list_audit(gateway.database, which, before=AFTER.read(request), limit=LIMIT.read(request))
    names = await _names(gateway, page.entries)
    data = [_object(entry, names) for entry in page.entries]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def _names(gateway: Gateway, entries: Sequence[AuditEntry]) -> dict[str, str]:
    """What the accounts are called that the entries name, deleted ones too."""
    ids = {one for entry in entries for one in (_account_of(entry.actor), entry.object, entry.account_id) if one}
    owners = await account_owners(gateway.database, list(ids))
    return {account_id: owner.name for account_id, owner in owners.items() if owner.name != account_id}


def _account_of(actor: str) -> str:
    return actor.partition("/")[0]


def _object(entry: AuditEntry, names: Mapping[str, str]) -> AuditObject:
    return AuditObject(
        id=audit_id(entry.id),
        at=entry.at,
        actor=entry.actor,
        actor_name=names.get(_account_of(entry.actor)),
        action=entry.action,
        subject=entry.object,
        subject_name=names.get(entry.object),
        account_id=entry.account_id,
        account_name=names.get(entry.account_id or ""),
        detail=entry.detail,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/audit",
        list_audit,
        "List the audit log, newest first",
        Described(answer=ListPage[AuditObject], parameters=_FILTERS, errors=(400,)),
    ),
)
