"""`ebbtide keys …`: works on the database directly. A new key's secret is the only thing `create` prints."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

from cyclopts import App, Parameter

from ebbtide.accounts import keys
from ebbtide.accounts.accounts import find_account, list_accounts
from ebbtide.accounts.directory import KeyWish, create_key, revoke_key
from ebbtide.accounts.quotas import UNLIMITED, Amounts, set_budgets, usd_text
from ebbtide.accounts.store import ApiKey
from ebbtide.cli.actor import actor
from ebbtide.cli.amounts import Limit, read_amount
from ebbtide.cli.bootflags import DatabaseFlags, read_config
from ebbtide.cli.database import open_database
from ebbtide.cli.output import AsJson, print_json, print_rows, tell
from ebbtide.clock import SystemClock
from ebbtide.errors import SetupError

app = App(name="keys", help="API keys of accounts.")
_COLUMNS = (
    *("prefix", "account", "name", "state", "daily_budget_usd", "monthly_budget_usd"),
    *("created_at", "expires_at", "last_used_at", "id"),
)
_HERE = DatabaseFlags()
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([0-9]{1,6})([mhdw])")

Lifetime = Annotated[
    str | None, Parameter(help="How long the key works: 30m, 12h, 90d, 4w. Without it: until revoked.")
]


@app.command
async def create(
    account: str, /, *, name: str = "", expires_in: Lifetime = None, json: AsJson = False, flags: DatabaseFlags = _HERE
) -> None:
    """Make a key for an account (its name or id) and print its secret, which nobody can read again."""
    lifetime = None if expires_in is None else parse_span(expires_in)
    async with open_database(read_config(flags)) as database:
        owner = await find_account(database, account)
        now = SystemClock().now()
        wish = KeyWish(owner.id, name, None if lifetime is None else now + lifetime, UNLIMITED)
        key, secret = await create_key(database, wish, actor(), now)
    if json:
        print_json({**_row(key, owner.name, now), "key": secret})
        return
    tell(f"A key for {owner.name} ({owner.role.value}). Keep it: it is shown this once.")
    print(secret)


@app.command(name="list")
async def list_(account: str | None = None, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """List the keys of an account, or of all accounts; only the beginning of each key is known."""
    async with open_database(read_config(flags)) as database:
        owner = None if account is None else await find_account(database, account)
        names = {found.id: found.name for found in await list_accounts(database)}
        found = await keys.list_keys(database, None if owner is None else owner.id)
    now = SystemClock().now()
    rows = (_row(key, names.get(key.account_id, key.account_id), now) for key in found)
    print_rows(rows, _COLUMNS, as_json=json, empty="There are no keys yet.")


@app.command
async def revoke(key_id: str, /, *, flags: DatabaseFlags = _HERE) -> None:
    """Withdraw a key (by its id, key_…) for good, everywhere within a second. Its unfinished batches fail."""
    async with open_database(read_config(flags)) as database:
        key = await revoke_key(database, key_id, actor(), SystemClock().now())
    tell(f"{key.prefix}… is revoked.")


@app.command
async def budget(
    key_id: str,
    /,
    *,
    daily: Limit = None,
    monthly: Limit = None,
    json: AsJson = False,
    flags: DatabaseFlags = _HERE,
) -> None:
    """Set what a key (key_…) may spend of its account's quota, in USD a day and a month (UTC), or show it."""
    async with open_database(read_config(flags)) as database:
        now = SystemClock().now()
        before = await keys.find_key(database, key_id)
        amounts = Amounts(
            read_amount("--daily", daily, before.daily_budget_usd),
            read_amount("--monthly", monthly, before.monthly_budget_usd),
        )
        await set_budgets(database, key_id, amounts, actor(), now)
        changed = await keys.find_key(database, key_id)
        owner = await find_account(database, changed.account_id)
    print_rows([_row(changed, owner.name, now)], _COLUMNS, as_json=json, empty="")


def parse_span(text: str) -> timedelta:
    """A lifetime such as 90d. Raises SetupError."""
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise SetupError(
            f"--expires-in takes a number above 0 and one of m, h, d or w, such as 90d; {text!r} is not that"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _row(key: ApiKey, account: str, now: datetime) -> dict[str, object]:
    budgets = {name: usd_text(getattr(key, name)) for name in ("daily_budget_usd", "monthly_budget_usd")}
    return {**asdict(key), **budgets, "account": account, "state": _state(key, now)}


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"
