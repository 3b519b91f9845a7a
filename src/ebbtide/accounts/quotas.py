"""How much an account and a key may spend, and whether that is used up. Days and months are UTC.

What has been charged decides whether work pauses; requests still running count at what they may cost, and when they
alone stand in the way the work only waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from ebbtide.accounts.roles import Role
from ebbtide.errors import InvalidRequest, LimitReached, NotFound
from ebbtide.records.audit import Deed, add_audit
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.accounts", "quotas.sql")

PauseReason = Literal["daily_quota", "monthly_quota", "key_budget"]

LIMITS_CHANNEL: Final = "ebbtide_limits"
MAX_CONCURRENCY: Final = 100_000
RECHECK: Final = timedelta(minutes=1)
WAIT_FOR_RUNNING: Final = timedelta(seconds=30)
_WORDS: Final[dict[PauseReason, str]] = {
    "daily_quota": "Your daily quota is used up; it renews at midnight UTC",
    "monthly_quota": "Your monthly quota is used up; it renews on the 1st (UTC)",
    "key_budget": "The API key has spent its own budget",
}


_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Limits:
    """A key's limits and its account's, in USD, and what was charged against each. None: no limit."""

    key_id: str
    account_id: str
    daily_quota_usd: Decimal | None
    monthly_quota_usd: Decimal | None
    daily_budget_usd: Decimal | None
    monthly_budget_usd: Decimal | None
    account_day: Decimal
    account_month: Decimal
    key_day: Decimal
    key_month: Decimal

    def used_up(self, account: Decimal = _ZERO, key: Decimal = _ZERO) -> PauseReason | None:
        """The first limit that charges have reached, alone or with what the account's and the key's requests hold."""
        if _reached(self.daily_quota_usd, self.account_day + account):
            return "daily_quota"
        if _reached(self.monthly_quota_usd, self.account_month + account):
            return "monthly_quota"
        by_day = _reached(self.daily_budget_usd, self.key_day + key)
        if by_day or _reached(self.monthly_budget_usd, self.key_month + key):
            return "key_budget"
        return None

    def check(self, now: datetime) -> None:
        """Raise LimitReached when charges alone have reached a limit, with the time until it renews."""
        reason = self.used_up()
        if reason is None:
            return
        by_day = _reached(self.daily_budget_usd, self.key_day) and not _reached(self.monthly_budget_usd, self.key_month)
        month = reason == "monthly_quota" or (reason == "key_budget" and not by_day)
        ends = next_month(now) if month else next_midnight(now)
        raise LimitReached(_WORDS[reason], code=reason, retry_after=(ends - now).total_seconds())

    def account_left(self) -> Decimal | None:
        """What the account's quotas leave; None without one."""
        return _least(_left(self.daily_quota_usd, self.account_day), _left(self.monthly_quota_usd, self.account_month))

    def key_left(self) -> Decimal | None:
        """What the key's budgets leave; None without one."""
        return _least(_left(self.daily_budget_usd, self.key_day), _left(self.monthly_budget_usd, self.key_month))


@dataclass(frozen=True, slots=True)
class Amounts:
    """USD a day and a month (UTC); None is no limit."""

    daily: Decimal | None
    monthly: Decimal | None

    @property
    def told(self) -> dict[str, str | None]:
        """As the audit log keeps it."""
        return {"daily": usd_text(self.daily), "monthly": usd_text(self.monthly)}


UNLIMITED: Final = Amounts(None, None)


async def read_limits(conn: Connection, key_ids: Sequence[str], today: date, settings: Settings) -> dict[str, Limits]:
    """The limits of those keys that have any of their own, through their account or through its role."""
    roles = [role.value for role in Role]
    daily, monthly = zip(*(settings.quotas_usd(role) for role in roles), strict=True)
    rows = await conn.fetch(_Q["read_limits"], key_ids, today, roles, daily, monthly)
    return {row["key_id"]: Limits(**row) for row in rows}


def limited_roles(settings: Settings) -> list[str]:
    """The roles whose accounts have a quota unless it is said otherwise."""
    return [role.value for role in Role if settings.quotas_usd(role.value) != (None, None)]


async def read_cap(conn: Connection, key_id: str, settings: Settings) -> int:
    """How many interactive requests the key's account may have running at once; 0 means no cap."""
    row = await conn.fetchrow(_Q["read_cap"], key_id)
    if row is None:
        return 0
    own: int | None = row["max_concurrency"]
    return settings.user_concurrency(row["role"]) if own is None else own


async def check_money_left(conn: Connection, key_id: str, now: datetime, settings: Settings) -> None:
    """Raise LimitReached when the account's quota or the key's budget is used up."""
    limits = (await read_limits(conn, [key_id], now.date(), settings)).get(key_id)
    if limits is not None:
        limits.check(now)


def paused_until(now: datetime) -> datetime:
    """When paused work is looked at again: soon, so that a raised limit is noticed, and at midnight at the latest."""
    return min(now + RECHECK, next_midnight(now))


async def set_quotas(database: Database, account_id: str, amounts: Amounts, actor: str, now: datetime) -> None:
    """Set an account's quotas, with a row in the audit log. Raises NotFound, InvalidRequest."""
    missing = f"There is no account {account_id!r}."
    await _set(database, _Kind("quotas", account_id, missing), amounts, actor, now)


async def set_budgets(database: Database, key_id: str, amounts: Amounts, actor: str, now: datetime) -> None:
    """Set a key's budgets, with a row in the audit log. Raises NotFound, InvalidRequest."""
    await _set(database, _Kind("budgets", key_id, f"There is no key {key_id!r}."), amounts, actor, now)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Which amounts, of what; and the words for its not being there."""

    noun: Literal["quotas", "budgets"]
    id: str
    missing: str


async def _set(database: Database, kind: _Kind, amounts: Amounts, actor: str, now: datetime) -> None:
    check_amounts(amounts)
    async with database.transaction() as conn:
        row = await conn.fetchrow(_Q[f"lock_{kind.noun}"], kind.id)
        if row is None:
            raise NotFound(kind.missing)
        before = Amounts(row["daily"], row["monthly"])
        if before == amounts:
            return
        await conn.execute(_Q[f"set_{kind.noun}"], kind.id, amounts.daily, amounts.monthly)
        action = "account.quotas" if kind.noun == "quotas" else "key.budgets"
        detail = {"old": before.told, "new": amounts.told}
        await add_audit(conn, Deed(actor, action, kind.id, account_id=row["account_id"], detail=detail), now)
        await notify(conn, LIMITS_CHANNEL)


CapName = Literal["max_concurrency", "batch_max_concurrency"]
"""An account's own cap: of interactive requests, of batch requests."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap to be set: requests running at once, 0 for any number, None for the role's."""

    name: CapName
    value: int | None


async def set_concurrency(database: Database, account_id: str, cap: Cap, actor: str, now: datetime) -> None:
    """Set one of an account's own caps, with a row in the audit log. Raises NotFound, InvalidRequest."""
    check_cap(cap.name, cap.value)
    async with database.transaction() as conn:
        row = await conn.fetchrow(_Q["lock_concurrency"], account_id)
        if row is None:
            raise NotFound(f"There is no account {account_id!r}.")
        if row[cap.name] == cap.value:
            return
        after = {**row, cap.name: cap.value}
        await conn.execute(_Q["set_concurrency"], account_id, after["max_concurrency"], after["batch_max_concurrency"])
        detail = {"cap": cap.name, "old": row[cap.name], "new": cap.value}
        await add_audit(conn, Deed(actor, "account.concurrency", account_id, account_id=account_id, detail=detail), now)
        await notify(conn, LIMITS_CHANNEL)


def check_cap(name: str, cap: int | None) -> None:
    """Raises InvalidRequest."""
    if cap is not None and not 0 <= cap <= MAX_CONCURRENCY:
        raise InvalidRequest(f"{name} must be a whole number from 0 to {MAX_CONCURRENCY:,}, or null", param=name)


def usd_text(amount: Decimal | None) -> str | None:
    """An amount of USD as plain digits, without zeros that say nothing."""
    return None if amount is None else f"{amount.normalize():f}"


def check_amounts(amounts: Amounts) -> None:
    """Raises InvalidRequest."""
    for name, amount in (("daily", amounts.daily), ("monthly", amounts.monthly)):
        if amount is not None and not (amount.is_finite() and 0 <= amount < 10**9):
            raise InvalidRequest(f"{name} must be an amount of USD, 0 or more and below a billion", param=name)


def _reached(limit: Decimal | None, charged: Decimal) -> bool:
    return limit is not None and charged >= limit


def _left(limit: Decimal | None, charged: Decimal) -> Decimal | None:
    return None if limit is None else limit - charged


def _least(*amounts: Decimal | None) -> Decimal | None:
    return min((amount for amount in amounts if amount is not None), default=None)


def next_midnight(now: datetime) -> datetime:
    """When daily amounts begin anew."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC)


def next_month(now: datetime) -> datetime:
    """When monthly amounts begin anew."""
    first = now.astimezone(UTC).date().replace(day=1)
    return datetime.combine((first + timedelta(days=32)).replace(day=1), datetime.min.time(), UTC)
