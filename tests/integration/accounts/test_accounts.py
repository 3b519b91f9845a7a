"""Accounts on a real database: names, roles, states, and the one first administrator."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from tests import people
from tests.clocks import ManualClock

from ebbtide.accounts import accounts, setup
from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.roles import Role
from ebbtide.errors import Conflict, InvalidRequest, NotFound
from ebbtide.storage.pool import Database

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


async def test_an_account_is_found_by_id_and_by_name(database: Database) -> None:
    made = await people.create_account(database, " ada ", Role.PRO, NOW)
    assert (made.name, made.role, made.state, made.created_at) == ("ada", Role.PRO, "active", NOW)
    assert await accounts.find_account(database, made.id) == made
    assert await accounts.find_account(database, "ada") == made
    assert await accounts.list_accounts(database) == [made]


async def test_a_name_is_taken_while_its_account_lives(database: Database) -> None:
    first = await people.create_account(database, "ada", Role.FREE, NOW)
    with pytest.raises(Conflict, match="'ada' exists already"):
        await people.create_account(database, "ada", Role.ADMIN, NOW)
    await people.delete_account(database, first.id)
    second = await people.create_account(database, "ada", Role.FREE, NOW)
    assert [account.id for account in await accounts.list_accounts(database)] == [second.id]


async def test_two_at_once_get_one_name(database: Database) -> None:
    made = await asyncio.gather(
        *(people.create_account(database, "ada", Role.FREE, NOW) for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, Conflict) for one in made) == 7
    assert len(await accounts.list_accounts(database)) == 1


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "a\nb", "a\0b"])
async def test_an_unusable_name_is_refused(database: Database, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await people.create_account(database, name, Role.FREE, NOW)


async def test_role_and_state_change(database: Database) -> None:
    made = await people.create_account(database, "ada", Role.FREE, NOW)
    assert (await people.set_role(database, made.id, Role.INTERNAL)).role is Role.INTERNAL
    assert (await people.suspend_account(database, made.id)).state == "suspended"
    assert (await people.suspend_account(database, made.id)).state == "suspended"
    assert (await people.resume_account(database, made.id)).state == "active"
    assert (await accounts.find_account(database, "ada")).role is Role.INTERNAL


async def test_what_is_gone_is_not_found(database: Database) -> None:
    made = await people.create_account(database, "ada", Role.FREE, NOW)
    await people.delete_account(database, made.id)
    for change in (people.suspend_account, people.resume_account, people.delete_account, accounts.find_account):
        with pytest.raises(NotFound):
            await change(database, made.id)
    with pytest.raises(NotFound):
        await people.set_role(database, made.id, Role.PRO)


async def test_eight_starts_make_one_administrator(database: Database) -> None:
    secrets = await asyncio.gather(*(accounts.ensure_admin(database, NOW) for _ in range(8)))
    made = [secret for secret in secrets if secret is not None]
    assert len(made) == 1
    principal = await Authenticator(database, ManualClock(NOW)).principal(made[0])
    [admin] = await accounts.list_accounts(database)
    assert (principal.account_id, principal.role, admin.name) == (admin.id, Role.ADMIN, "admin")
    assert await accounts.ensure_admin(database, NOW) is None


async def test_no_administrator_is_made_beside_one_who_was_there(database: Database) -> None:
    made = await people.create_account(database, "root", Role.ADMIN, NOW)
    assert await accounts.ensure_admin(database, NOW) is None
    await people.create_account(database, "another", Role.ADMIN, NOW)
    await people.delete_account(database, made.id)
    assert await accounts.ensure_admin(database, NOW) is None


async def test_the_last_administrator_is_not_deleted(database: Database) -> None:
    made = [await people.create_account(database, name, Role.ADMIN, NOW) for name in ("a", "b", "c")]
    await people.suspend_account(database, made[2].id)
    done = await asyncio.gather(*(people.delete_account(database, one.id) for one in made[:2]), return_exceptions=True)
    refused = [error for error in done if isinstance(error, Conflict)]
    assert [error.message for error in refused] == ["This is the last administrator; make another one first"]
    await people.delete_account(database, made[2].id)
    assert len(await accounts.list_accounts(database)) == 1


async def test_other_accounts_do_not_stand_in_the_way(database: Database) -> None:
    await people.create_account(database, "ada", Role.INTERNAL, NOW)
    assert await accounts.ensure_admin(database, NOW) is not None


@pytest.mark.parametrize("deed", ["demote", "suspend", "delete"])
async def test_the_last_administrator_that_may_act_stays(database: Database, deed: str) -> None:
    async def act(account_id: str) -> object:
        if deed == "demote":
            return await people.set_role(database, account_id, Role.INTERNAL)
        return await (people.suspend_account if deed == "suspend" else people.delete_account)(database, account_id)

    made = [await people.create_account(database, name, Role.ADMIN, NOW) for name in ("ada", "bob", "cat")]
    results = await asyncio.gather(*(act(account.id) for account in made), return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 1
    left = await accounts.list_accounts(database)
    assert sum(account.role is Role.ADMIN and account.state == "active" for account in left) == 1


async def test_processes_that_start_together_make_one_setup_code(database: Database) -> None:
    codes = await asyncio.gather(*(setup.ensure_code(database, NOW) for _ in range(6)))
    assert sum(code is not None for code in codes) == 1
    assert await setup.ensure_code(database, NOW) is None
    renewed = await setup.renew_code(database, "cli:test", NOW)
    async with database.connection() as conn:
        stored = await conn.fetchrow("select count(*) as n, min(hash::text) as hash from setup_code")
    assert stored is not None
    assert stored["n"] == 1
    assert renewed not in codes
    assert renewed not in stored["hash"]
