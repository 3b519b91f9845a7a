"""/user: the caller's own account and its keys.

A user's key never gets a larger budget than it has, and a new one none larger than that of the key that makes it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts import directory, keys, quotas
from ebbtide.accounts.directory import KeyWish
from ebbtide.accounts.quotas import Amounts
from ebbtide.accounts.store import ApiKey, Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.parts import (
    AccountObject,
    Budgets,
    KeyDraft,
    KeyObject,
    SignInObject,
    account_object,
    amounts_over,
    key_list,
    key_object,
    parse_body,
    sign_in_object,
)
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.errors import InvalidRequest, NotFound

AFTER = TextParameter("after", "The last_id of the page before")
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Keys in a page")


class User(msgspec.Struct, frozen=True):
    """The caller: its account, how people sign in as it, the key it asks with, and what was charged today and this
    month (UTC), in USD.
    """

    account: AccountObject
    key_id: str
    spent_today_usd: float
    spent_this_month_usd: float
    sign_in: SignInObject
    object: Literal["user"] = "user"


async def get_user(gateway: Gateway, request: Request, principal: Principal) -> Response:
    account = await directory.get_account(gateway.database, principal.account_id)
    spent = await directory.spent(gateway.database, account.id, gateway.clock.now().date())
    ways = sign_in_object(*await directory.signs_in(gateway.database, account.id))
    shown = account_object(account, gateway.settings.current)
    return answer_json(User(shown, principal.key_id, float(spent.day), float(spent.month), ways))


async def list_user_keys(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await directory.page_keys(gateway.database, principal.account_id, AFTER.read(request), LIMIT.read(request))
    return answer_json(key_list(page, gateway.clock.now()))


async def create_user_key(gateway: Gateway, request: Request, principal: Principal) -> Response:
    draft, now = parse_body(await read_body(request, MIB), KeyDraft), gateway.clock.now()
    most = _budgets(await keys.find_key(gateway.database, principal.key_id))
    budgets = amounts_over(draft.daily_budget_usd, draft.monthly_budget_usd, most)
    _check_lower(budgets, most)
    wish = KeyWish(principal.account_id, draft.name, draft.expires_at, budgets)
    key, secret = await directory.create_key(gateway.database, wish, principal.actor, now)
    return answer_json(key_object(key, now, secret))


async def set_user_key_budgets(gateway: Gateway, request: Request, principal: Principal) -> Response:
    wanted, now = parse_body(await read_body(request, MIB), Budgets), gateway.clock.now()
    key = await _own_key(gateway, request, principal)
    amounts = wanted.over(_budgets(key))
    _check_lower(amounts, _budgets(key))
    await quotas.set_budgets(gateway.database, key.id, amounts, principal.actor, now)
    return answer_json(key_object(await keys.find_key(gateway.database, key.id), now))


async def revoke_user_key(gateway: Gateway, request: Request, principal: Principal) -> Response:
    key, now = await _own_key(gateway, request, principal), gateway.clock.now()
    revoked = await directory.revoke_key(gateway.database, key.id, principal.actor, now)
    gateway.authenticator.forget()
    return answer_json(key_object(revoked, now))


async def _own_key(gateway: Gateway, request: Request, principal: Principal) -> ApiKey:
    key_id = request.path_params["id"]
    key = await keys.find_key(gateway.database, key_id)
    if key.account_id != principal.account_id:
        raise NotFound(f"There is no key {key_id!r}")
    return key


def _budgets(key: ApiKey) -> Amounts:
    return Amounts(key.daily_budget_usd, key.monthly_budget_usd)


def _check_lower(amounts: Amounts, most: Amounts) -> None:
    """Raises InvalidRequest naming the budget that is larger than `most` allows."""
    pairs = (("daily_budget_usd", amounts.daily, most.daily), ("monthly_budget_usd", amounts.monthly, most.monthly))
    for name, amount, limit in pairs:
        if limit is not None and (amount is None or amount > limit):
            raise InvalidRequest(f"{name} may be at most {_plain(limit)}; an administrator can raise it", param=name)


def _plain(amount: Decimal) -> str:
    return quotas.usd_text(amount) or "0"


ROUTES: tuple[Endpoint, ...] = (
    Closed("GET", "/user", get_user, "Who asks, and what was spent", Described(answer=User)),
    Closed(
        "GET",
        "/user/keys",
        list_user_keys,
        "List your keys, oldest first",
        Described(answer=ListPage[KeyObject], parameters=(AFTER, LIMIT), errors=(400,)),
    ),
    Closed(
        "POST",
        "/user/keys",
        create_user_key,
        "Make a key; its secret is shown this once",
        Described(request=KeyDraft, answer=KeyObject, errors=(400, 413)),
    ),
    Closed(
        "PATCH",
        "/user/keys/{id}",
        set_user_key_budgets,
        "Lower a key's budgets",
        Described(request=Budgets, answer=KeyObject, errors=(400, 404, 413)),
    ),
    Closed(
        "DELETE",
        "/user/keys/{id}",
        revoke_user_key,
        "Revoke a key for good",
        Described(answer=KeyObject, errors=(404,)),
    ),
)
