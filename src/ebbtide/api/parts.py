"""What several handlers of the admin and user interfaces share: strict bodies, and accounts and keys on the wire."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypeVar

import msgspec

from ebbtide.accounts.directory import Identity
from ebbtide.accounts.quotas import Amounts
from ebbtide.accounts.store import Account, ApiKey
from ebbtide.api.answers import list_page
from ebbtide.dialects.openai.batch import ListPage
from ebbtide.dialects.values import check_json
from ebbtide.errors import InvalidRequest
from ebbtide.page import Page
from ebbtide.settings.snapshot import Settings

Body = TypeVar("Body")
RoleName = Literal["free", "pro", "internal", "admin"]
_FIELD = re.compile(r"`\$\.(\w+)|(?:field|unknown field) `(\w+)`")


class AccountObject(msgspec.Struct, frozen=True):
    """An account. Quotas in USD a day and a month (UTC), null where it has none of its own.

    `max_concurrency` and `batch_max_concurrency` are its own caps of requests running at once, null where its role's
    hold, which stand beside them; 0 is no cap.
    """

    id: str
    name: str
    role: RoleName
    state: str
    created_at: datetime
    daily_quota_usd: float | None
    monthly_quota_usd: float | None
    max_concurrency: int | None
    role_max_concurrency: int
    batch_max_concurrency: int | None
    role_batch_max_concurrency: int
    email: str | None
    object: Literal["account"] = "account"


class IdentityObject(msgspec.Struct, frozen=True):
    """Somebody who signs in by OpenID Connect: the subject as its issuer names it."""

    issuer: str
    subject: str
    created_at: datetime


class SignInObject(msgspec.Struct, frozen=True):
    """How people sign in as an account: by its name and password, and who by OpenID Connect."""

    password: bool
    identities: list[IdentityObject]


class KeyObject(msgspec.Struct, frozen=True, kw_only=True):
    """An API key; `prefix` tells it from others. `key` is its secret, there only in the answer that made it."""

    id: str
    account_id: str
    name: str
    prefix: str
    state: Literal["active", "expired", "revoked"]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    daily_budget_usd: float | None
    monthly_budget_usd: float | None
    key: str | None = None
    object: Literal["api_key"] = "api_key"


class KeyDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be made; `expires_at` with its timezone. Budgets in USD a day and a month (UTC)."""

    name: str = ""
    expires_at: datetime | None = None
    daily_budget_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET
    monthly_budget_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a key may spend, in USD; null takes a budget away, and what is left out stays."""

    daily_budget_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET
    monthly_budget_usd: Decimal | msgspec.UnsetType | None = msgspec.UNSET

    def over(self, before: Amounts) -> Amounts:
        """The amounts that hold then."""
        return amounts_over(self.daily_budget_usd, self.monthly_budget_usd, before)


def amounts_over(
    daily: Decimal | msgspec.UnsetType | None, monthly: Decimal | msgspec.UnsetType | None, before: Amounts
) -> Amounts:
    """Those given, and those of `before` where none is."""
    return Amounts(
        before.daily if isinstance(daily, msgspec.UnsetType) else daily,
        before.monthly if isinstance(monthly, msgspec.UnsetType) else monthly,
    )


def parse_body(raw: bytes, kind: type[Body]) -> Body:
    """A JSON body as `kind`. Raises InvalidRequest naming the field at fault."""
    try:
        body = msgspec.convert(check_json(raw), kind)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        raise InvalidRequest(str(error), param=(found[1] or found[2]) if found else None) from None
    expires = getattr(body, "expires_at", None)
    if isinstance(expires, datetime) and expires.tzinfo is None:
        raise InvalidRequest("expires_at must have a timezone", param="expires_at")
    return body


def account_object(account: Account, settings: Settings) -> AccountObject:
    return AccountObject(
        id=account.id,
        name=account.name,
        role=account.role.value,
        state=account.state,
        created_at=account.created_at,
        daily_quota_usd=_usd(account.daily_quota_usd),
        monthly_quota_usd=_usd(account.monthly_quota_usd),
        max_concurrency=account.max_concurrency,
        role_max_concurrency=settings.user_concurrency(account.role.value),
        batch_max_concurrency=account.batch_max_concurrency,
        role_batch_max_concurrency=settings.batch_role_concurrency(account.role.value),
        email=account.email,
    )


def sign_in_object(has_password: bool, identities: Sequence[Identity]) -> SignInObject:
    return SignInObject(has_password, [IdentityObject(i.issuer, i.subject, i.created_at) for i in identities])


def key_object(key: ApiKey, now: datetime, secret: str | None = None) -> KeyObject:
    return KeyObject(
        id=key.id,
        account_id=key.account_id,
        name=key.name,
        prefix=key.prefix,
        state=_state(key, now),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
        daily_budget_usd=_usd(key.daily_budget_usd),
        monthly_budget_usd=_usd(key.monthly_budget_usd),
        key=secret,
    )


def key_list(page: Page[ApiKey], now: datetime) -> ListPage[KeyObject]:
    return list_page([key_object(key, now) for key in page.items], [key.id for key in page.items], page.has_more)


def _state(key: ApiKey, now: datetime) -> Literal["active", "expired", "revoked"]:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def _usd(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
