"""`ebbtide accounts …`: works on the database directly, so it needs no key and no running gateway."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from getpass import getpass

from cyclopts import App

from ebbtide.accounts import accounts, directory, purges
from ebbtide.accounts.directory import Identity, NewAccount
from ebbtide.accounts.oidc.config import load_oidc
from ebbtide.accounts.oidc.flow import link
from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.purges import Purge
from ebbtide.accounts.quotas import UNLIMITED, Amounts, Cap, set_concurrency, set_quotas, usd_text
from ebbtide.accounts.roles import Role
from ebbtide.accounts.sessions import Sessions
from ebbtide.accounts.setup import renew_code
from ebbtide.accounts.store import Account
from ebbtide.cli.actor import actor
from ebbtide.cli.amounts import Limit, read_amount
from ebbtide.cli.bootflags import DatabaseFlags, read_config
from ebbtide.cli.database import open_database
from ebbtide.cli.output import AsJson, print_rows, tell
from ebbtide.clock import SystemClock
from ebbtide.errors import InvalidRequest, NotFound, SetupError
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database

app = App(name="accounts", help="Accounts: who may use the gateway, and as what.")
_QUOTAS = ("daily_quota_usd", "monthly_quota_usd")
_COLUMNS = ("name", "role", "state", *_QUOTAS, "max_concurrency", "batch_max_concurrency", "created_at", "id")
_HERE = DatabaseFlags()


@app.command
async def create(name: str, /, *, role: Role = Role.FREE, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Make an account. It has no key yet: see `ebbtide keys create`."""
    async with open_database(read_config(flags)) as database:
        new = NewAccount(name, role, UNLIMITED)
        account = await directory.create_account(database, new, actor(), SystemClock().now())
        settings = SettingsSource.from_environ(os.environ)
        await settings.refresh(database)
    _print([account], json)
    needed = Role(settings.current.batch_min_role)
    if role < needed:
        tell(
            f"As {role.value} it may not run batches: that takes {needed.value} or higher (BATCH_MIN_ROLE). "
            "`ebbtide accounts set-role` gives it another role."
        )


@app.command(name="list")
async def list_(*, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """List the accounts, oldest first."""
    async with open_database(read_config(flags)) as database:
        found = await accounts.list_accounts(database)
    _print(found, json)


@app.command
async def set_role(account: str, role: Role, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Give an account (its name or id) another role; in force within a second."""
    await _change({"role": role}, account, json, flags)


@app.command
async def suspend(account: str, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Refuse an account's keys until it is resumed. Its unfinished batches fail."""
    await _change({"state": "suspended"}, account, json, flags)


@app.command
async def resume(account: str, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Undo a suspension."""
    await _change({"state": "active"}, account, json, flags)


@app.command
async def delete(
    account: str, /, *, permanent: bool = False, json: AsJson = False, flags: DatabaseFlags = _HERE
) -> None:
    """Delete an account: its keys never work again, its name is free. Its unfinished batches fail.

    Parameters
    ----------
    permanent
        Have the workers remove it for good: batches, files, webhook, keys. Takes the id of a deleted account too.
    """
    if not permanent:
        await _change({"state": "deleted"}, account, json, flags)
        return
    async with open_database(read_config(flags)) as database:
        account_id = await _id_of(database, account)
        purge = await purges.purge_account(database, account_id, actor(), SystemClock().now())
    _print_purges([purge], json)


@app.command(name="purges")
async def purges_(*, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Show how far the removal of accounts is, the last 100 asked for."""
    async with open_database(read_config(flags)) as database:
        page = await purges.page_purges(database, None, 100)
    _print_purges(page.items, json)


async def _id_of(database: Database, account: str) -> str:
    """The id of a living account named so, or else what was given: it may be a deleted one's id."""
    try:
        return (await accounts.find_account(database, account)).id
    except NotFound:
        return account


def _print_purges(found: Sequence[Purge], as_json: bool) -> None:
    columns = (
        "account_id",
        "state",
        "waits_for",
        "batches_left",
        "files_left",
        "rows_removed",
        "asked_at",
        "finished_at",
    )
    rows = ({**{c: getattr(p, c) for c in columns}, "waits_for": ", ".join(p.waits_for)} for p in found)
    print_rows(rows, columns, as_json=as_json, empty="No account was removed for good.")


@app.command
async def quota(
    account: str,
    /,
    *,
    daily: Limit = None,
    monthly: Limit = None,
    json: AsJson = False,
    flags: DatabaseFlags = _HERE,
) -> None:
    """Set what an account may spend, in USD a day and a month (UTC), or show it; raised ones resume paused batches."""
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        amounts = Amounts(
            read_amount("--daily", daily, found.daily_quota_usd),
            read_amount("--monthly", monthly, found.monthly_quota_usd),
        )
        await set_quotas(database, found.id, amounts, actor(), SystemClock().now())
        changed = await accounts.find_account(database, found.id)
    _print([changed], json)


@app.command
async def concurrency(
    account: str, cap: str, /, *, batch: bool = False, json: AsJson = False, flags: DatabaseFlags = _HERE
) -> None:
    """Set how many interactive requests an account may run at once: a number, 0 for any, `role` for its role's.

    Parameters
    ----------
    batch
        Set how many batch requests it may run at once instead, over all models.
    """
    wanted = Cap("batch_max_concurrency" if batch else "max_concurrency", _read_cap(cap))
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        await set_concurrency(database, found.id, wanted, actor(), SystemClock().now())
        changed = await accounts.find_account(database, found.id)
    _print([changed], json)


def _read_cap(text: str) -> int | None:
    if text.strip().lower() == "role":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise SetupError(f"CAP takes a whole number, or role; {text!r} is not that")
    return int(text)


@app.command
async def set_password(account: str, /, *, stdin: bool = False, flags: DatabaseFlags = _HERE) -> None:
    """Let an account sign in with a password, asked for twice, or read as one line; its sessions end.

    Parameters
    ----------
    stdin
        Read the password from standard input instead of asking for it.
    """
    password = sys.stdin.readline().rstrip("\n") if stdin else _asked()
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        await _sessions(database).set_password(found.id, password, actor())
    tell(f"{found.name} can sign in with this password now.")


@app.command
async def sessions(account: str, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """List an account's sessions, the last used first."""
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        open_ones = await _sessions(database).list_sessions(found.id)
    columns = ("created_at", "used_at", "expires_at")
    rows = (dict[str, object]((column, getattr(one, column)) for column in columns) for one in open_ones)
    print_rows(rows, columns, as_json=json, empty="There are no sessions.")


@app.command
async def end_sessions(account: str, /, *, flags: DatabaseFlags = _HERE) -> None:
    """Sign an account out everywhere."""
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        ended = await _sessions(database).sign_out_everywhere(found.id, actor())
    tell(f"Sessions ended: {ended}.")


@app.command
async def link_oidc(account: str, subject: str, /, *, flags: DatabaseFlags = _HERE) -> None:
    """Let a subject of the identity provider (EBBTIDE_OIDC_ISSUER) sign in as an account."""
    oidc = load_oidc(os.environ)
    if oidc is None:
        raise SetupError("EBBTIDE_OIDC_ISSUER is not set: a subject means nothing without its issuer")
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        async with database.transaction() as conn:
            await link(conn, Identity(oidc.issuer, subject, SystemClock().now()), found.id, actor())
    tell(f"{subject} signs in as {found.name} now.")


@app.command
async def setup_code(*, flags: DatabaseFlags = _HERE) -> None:
    """Print a new one-time code for first-run set-up; the one before is worth nothing then."""
    async with open_database(read_config(flags)) as database:
        print(await renew_code(database, actor(), SystemClock().now()))


def _sessions(database: Database) -> Sessions:
    return Sessions(database, SystemClock(), SettingsSource.from_environ(os.environ), Passwords())


def _asked() -> str:
    password = getpass("Password: ")
    if getpass("Once more: ") != password:
        raise InvalidRequest("The two passwords differ")
    return password


async def _change(given: Mapping[str, object], account: str, as_json: bool, flags: DatabaseFlags) -> None:
    async with open_database(read_config(flags)) as database:
        found = await accounts.find_account(database, account)
        changed = await directory.change_account(database, found.id, given, actor(), SystemClock().now())
    _print([changed], as_json)


def _print(found: list[Account], as_json: bool) -> None:
    print_rows((_row(account) for account in found), _COLUMNS, as_json=as_json, empty="There are no accounts yet.")


def _row(account: Account) -> dict[str, object]:
    return {
        "id": account.id,
        "name": account.name,
        "role": account.role.value,
        "state": account.state,
        "daily_quota_usd": usd_text(account.daily_quota_usd),
        "monthly_quota_usd": usd_text(account.monthly_quota_usd),
        "max_concurrency": account.max_concurrency,
        "batch_max_concurrency": account.batch_max_concurrency,
        "created_at": account.created_at,
    }
