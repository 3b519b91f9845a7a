"""/admin/accounts and /admin/keys: who may use the gateway, as what, for how much, and with which keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts import directory, keys, purges, quotas
from ebbtide.accounts.directory import AccountQuery, KeyWish, NewAccount
from ebbtide.accounts.quotas import UNLIMITED, Amounts
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Account, Principal
from ebbtide.api.admin.purges import AccountPurge, purge_object
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import ChoiceParameter, IntegerParameter, TextParameter
from ebbtide.api.parts import (
    AccountObject,
    Budgets,
    KeyDraft,
    KeyObject,
    RoleName,
    SignInObject,
    account_object,
    amounts_over,
    key_list,
    key_object,
    parse_body,
    sign_in_object,
)
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage

AFTER = TextParameter("after", "The last_id of the page before")
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Entries in a page")
SEARCH = TextParameter("search", "A part of the name or of the e-mail address, or the id")
ROLE = ChoiceParameter("role", "any", ("any", *(role.value for role in Role)), "Only accounts of this role")
STATE = ChoiceParameter(
    "state", "any", ("any", "active", "suspended", "deleted"), "Only accounts in this state; any but deleted without it"
)
PERMANENT = ChoiceParameter(
    "permanent", "false", ("true", "false"), "Remove it for good, with its batches, files, webhook and keys"
)
_Amount = Decimal | msgspec.UnsetType | None


class AccountDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An account to be made."""

    name: str
    role: RoleName = "free"
    daily_quota_usd: Decimal | None = None
    monthly_quota_usd: Decimal | None = None
    email: str | None = None


class AccountChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to change; what is left out stays. A null quota or address is none, a null cap lets the role's hold."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    role: RoleName | msgspec.UnsetType = msgspec.UNSET
    state: Literal["active", "suspended"] | msgspec.UnsetType = msgspec.UNSET
    daily_quota_usd: _Amount = msgspec.UNSET
    monthly_quota_usd: _Amount = msgspec.UNSET
    max_concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    batch_max_concurrency: int | msgspec.UnsetType | None = msgspec.UNSET
    email: str | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """The fields that were sent, as an Account holds them."""
        sent = {name: getattr(self, name) for name in self.__struct_fields__}
        sent = {name: value for name, value in sent.items() if value is not msgspec.UNSET}
        return sent | ({"role": Role(sent["role"])} if "role" in sent else {})


class AccountDetail(AccountObject, frozen=True, kw_only=True):
    """An account, and how people sign in as it."""

    sign_in: SignInObject


class AccountDeleted(msgspec.Struct, frozen=True):
    id: str
    object: Literal["account.deleted"] = "account.deleted"
    deleted: Literal[True] = True


async def list_accounts(gateway: Gateway, request: Request, principal: Principal) -> Response:
    role, state = ROLE.read(request), STATE.read(request)
    query = AccountQuery(
        AFTER.read(request),
        SEARCH.read(request),
        None if role == "any" else role,
        None if state == "any" else state,
        LIMIT.read(request),
    )
    page = await directory.page_accounts(gateway.database, query)
    data = [account_object(account, gateway.settings.current) for account in page.items]
    return answer_json(list_page(data, [one.id for one in data], page.has_more))


async def create_account(gateway: Gateway, request: Request, principal: Principal) -> Response:
    draft = parse_body(await read_body(request, MIB), AccountDraft)
    quotas = Amounts(draft.daily_quota_usd, draft.monthly_quota_usd)
    new = NewAccount(draft.name, Role(draft.role), quotas, draft.email)
    account = await directory.create_account(gateway.database, new, principal.actor, gateway.clock.now())
    return answer_json(account_object(account, gateway.settings.current))


async def get_account(gateway: Gateway, request: Request, principal: Principal) -> Response:
    account = await directory.get_account(gateway.database, request.path_params["id"])
    ways = sign_in_object(*await directory.signs_in(gateway.database, account.id))
    shown = account_object(account, gateway.settings.current)
    return answer_json(AccountDetail(**msgspec.structs.asdict(shown), sign_in=ways))


async def change_account(gateway: Gateway, request: Request, principal: Principal) -> Response:
    given = parse_body(await read_body(request, MIB), AccountChange).given()
    account = await _change(gateway, request, principal, given)
    return answer_json(account_object(account, gateway.settings.current))


async def delete_account(gateway: Gateway, request: Request, principal: Principal) -> Response:
    if PERMANENT.read(request) == "true":
        return await _purge_account(gateway, request, principal)
    account = await _change(gateway, request, principal, {"state": "deleted"})
    return answer_json(AccountDeleted(account.id))


async def _purge_account(gateway: Gateway, request: Request, principal: Principal) -> Response:
    account_id, now = request.path_params["id"], gateway.clock.now()
    purge = await purges.purge_account(gateway.database, account_id, principal.actor, now)
    gateway.authenticator.forget()
    return answer_json(purge_object(purge), 202)


async def _change(gateway: Gateway, request: Request, principal: Principal, given: dict[str, Any]) -> Account:
    account_id, now = request.path_params["id"], gateway.clock.now()
    changed = await directory.change_account(gateway.database, account_id, given, principal.actor, now)
    gateway.authenticator.forget()
    return changed


async def list_account_keys(gateway: Gateway, request: Request, principal: Principal) -> Response:
    account_id, after, limit = request.path_params["id"], AFTER.read(request), LIMIT.read(request)
    page = await directory.page_keys(gateway.database, account_id, after, limit)
    return answer_json(key_list(page, gateway.clock.now()))


async def create_account_key(gateway: Gateway, request: Request, principal: Principal) -> Response:
    draft, now = parse_body(await read_body(request, MIB), KeyDraft), gateway.clock.now()
    budgets = amounts_over(draft.daily_budget_usd, draft.monthly_budget_usd, UNLIMITED)
    wish = KeyWish(request.path_params["id"], draft.name, draft.expires_at, budgets)
    key, secret = await directory.create_key(gateway.database, wish, principal.actor, now)
    return answer_json(key_object(key, now, secret))


async def set_key_budgets(gateway: Gateway, request: Request, principal: Principal) -> Response:
    wanted, now = parse_body(await read_body(request, MIB), Budgets), gateway.clock.now()
    before = await keys.find_key(gateway.database, request.path_params["id"])
    amounts = wanted.over(Amounts(before.daily_budget_usd, before.monthly_budget_usd))
    await quotas.set_budgets(gateway.database, before.id, amounts, principal.actor, now)
    return answer_json(key_object(await keys.find_key(gateway.database, before.id), now))


async def revoke_key(gateway: Gateway, request: Request, principal: Principal) -> Response:
    now = gateway.clock.now()
    key = await directory.revoke_key(gateway.database, request.path_params["id"], principal.actor, now)
    gateway.authenticator.forget()
    return answer_json(key_object(key, now))


def _described(request: object = None, answer: object = AccountObject, *errors: int, page: bool = False) -> Described:
    return Described(request=request, answer=answer, errors=errors, parameters=(AFTER, LIMIT) if page else ())


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/accounts",
        list_accounts,
        "List the accounts, oldest first",
        Described(answer=ListPage[AccountObject], parameters=(AFTER, LIMIT, SEARCH, ROLE, STATE), errors=(400,)),
    ),
    Admin(
        "POST",
        "/admin/accounts",
        create_account,
        "Make an account",
        _described(AccountDraft, AccountObject, 400, 409, 413),
    ),
    Admin("GET", "/admin/accounts/{id}", get_account, "Get an account", _described(None, AccountDetail, 404)),
    Admin(
        "PATCH",
        "/admin/accounts/{id}",
        change_account,
        "Rename, promote, suspend or resume an account, or set its quotas and caps",
        _described(AccountChange, AccountObject, 400, 404, 409, 413),
    ),
    Admin(
        "DELETE",
        "/admin/accounts/{id}",
        delete_account,
        "Delete an account: its keys stop working and its name is free",
        Described(answer=AccountDeleted, more=((202, AccountPurge),), parameters=(PERMANENT,), errors=(400, 404, 409)),
    ),
    Admin(
        "GET",
        "/admin/accounts/{id}/keys",
        list_account_keys,
        "List an account's keys, oldest first",
        _described(None, ListPage[KeyObject], 400, 404, page=True),
    ),
    Admin(
        "POST",
        "/admin/accounts/{id}/keys",
        create_account_key,
        "Make a key; its secret is shown this once",
        _described(KeyDraft, KeyObject, 400, 404, 413),
    ),
    Admin(
        "PATCH",
        "/admin/keys/{id}",
        set_key_budgets,
        "Set a key's budgets",
        _described(Budgets, KeyObject, 400, 404, 413),
    ),
    Admin("DELETE", "/admin/keys/{id}", revoke_key, "Revoke a key for good", _described(None, KeyObject, 404)),
)
