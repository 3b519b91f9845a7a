"""API keys on a real database: what is stored, shown, refused and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from tests import people
from tests.clocks import ManualClock

from ebbtide.accounts import keys
from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.key_use import KeyUse
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Account, Q
from ebbtide.errors import InvalidRequest, NotFound, Unauthenticated, Unavailable
from ebbtide.storage.pool import Connection, Database

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
UNKNOWN = "ebb-" + "x" * 43


@pytest.fixture
async def ada(database: Database) -> Account:
    return await people.create_account(database, "ada", Role.INTERNAL, NOW)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def authenticator(database: Database, clock: ManualClock) -> Authenticator:
    return Authenticator(database, clock)


async def test_a_secret_is_told_once_and_never_stored(database: Database, ada: Account) -> None:
    key, secret = await people.create_key(database, ada.id, name="laptop", now=NOW)
    assert keys.has_key_form(secret)
    assert key.prefix == secret[:10]
    assert await keys.list_keys(database, ada.id) == [key]
    async with database.connection() as conn:
        row = await conn.fetchrow("select * from api_keys")
    assert row is not None
    assert row["hash"] == keys.digest(secret)
    assert secret not in str(dict(row))


async def test_a_key_opens_for_its_account(database: Database, ada: Account, authenticator: Authenticator) -> None:
    key, secret = await people.create_key(database, ada.id, now=NOW)
    principal = await authenticator.principal(secret)
    assert (principal.account_id, principal.key_id) == (ada.id, key.id)
    assert (principal.role, principal.account_id) == (Role.INTERNAL, ada.id)


async def test_every_refusal_reads_the_same(database: Database, ada: Account, authenticator: Authenticator) -> None:
    revoked, revoked_secret = await people.create_key(database, ada.id, now=NOW)
    await people.revoke_key(database, revoked.id, NOW)
    _, expired = await people.create_key(database, ada.id, expires_in=timedelta(hours=1), now=NOW - timedelta(hours=1))
    bea = await people.create_account(database, "bea", Role.FREE, NOW)
    _, suspended = await people.create_key(database, bea.id, now=NOW)
    await people.suspend_account(database, bea.id)
    cy = await people.create_account(database, "cy", Role.FREE, NOW)
    _, deleted = await people.create_key(database, cy.id, now=NOW)
    await people.delete_account(database, cy.id)
    messages = set()
    for secret in (UNKNOWN, "", "sk-nothing", "ebb-é", revoked_secret, expired, suspended, deleted):
        with pytest.raises(Unauthenticated) as refused:
            await authenticator.principal(secret)
        messages.add(refused.value.message)
    assert len(messages) == 1


async def test_a_revoked_key_stops_within_a_second_everywhere(
    database: Database, ada: Account, clock: ManualClock
) -> None:
    key, secret = await people.create_key(database, ada.id, now=NOW)
    processes = [Authenticator(database, clock) for _ in range(2)]
    for authenticator in processes:
        await authenticator.principal(secret)
    await people.revoke_key(database, key.id, NOW)
    clock.move(seconds=0.9)
    assert (await processes[0].principal(secret)).key_id == key.id  # remembered, so the query was spared
    clock.move(seconds=0.1)
    for authenticator in processes:
        with pytest.raises(Unauthenticated):
            await authenticator.principal(secret)


async def test_forgetting_stops_a_revoked_key_at_once(
    database: Database, ada: Account, authenticator: Authenticator
) -> None:
    key, secret = await people.create_key(database, ada.id, now=NOW)
    await authenticator.principal(secret)
    await people.revoke_key(database, key.id, NOW)
    authenticator.forget()
    with pytest.raises(Unauthenticated):
        await authenticator.principal(secret)


async def test_a_key_expires_to_the_moment(
    database: Database, ada: Account, clock: ManualClock, authenticator: Authenticator
) -> None:
    _, secret = await people.create_key(database, ada.id, expires_in=timedelta(milliseconds=500), now=NOW)
    await authenticator.principal(secret)
    clock.move(milliseconds=500)
    with pytest.raises(Unauthenticated):
        await authenticator.principal(secret)


async def test_a_changed_role_and_a_resumed_account_are_seen(
    database: Database, ada: Account, clock: ManualClock, authenticator: Authenticator
) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    await people.suspend_account(database, ada.id)
    with pytest.raises(Unauthenticated):
        await authenticator.principal(secret)
    await people.resume_account(database, ada.id)
    await people.set_role(database, ada.id, Role.PRO)
    clock.move(seconds=1)
    assert (await authenticator.principal(secret)).role is Role.PRO


async def test_a_clock_set_back_does_not_lengthen_a_memory(
    database: Database, ada: Account, clock: ManualClock, authenticator: Authenticator
) -> None:
    key, secret = await people.create_key(database, ada.id, now=NOW)
    await authenticator.principal(secret)
    await people.revoke_key(database, key.id, NOW)
    clock.move(hours=-1)
    with pytest.raises(Unauthenticated):
        await authenticator.principal(secret)


class CountedDatabase(Database):
    """The same database, counting how often it is asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked = 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self.asked += 1
        async with self._database.connection() as conn:
            yield conn


async def test_hammering_asks_once(database: Database, ada: Account, clock: ManualClock) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    counted = CountedDatabase(database)
    authenticator = Authenticator(counted, clock)
    await asyncio.gather(*(authenticator.principal(secret) for _ in range(50)))
    assert counted.asked == 1
    for _ in range(50):
        with pytest.raises(Unauthenticated):
            await authenticator.principal(UNKNOWN)
    assert counted.asked == 2
    with pytest.raises(Unauthenticated):
        await authenticator.principal("no key at all")
    assert counted.asked == 2


async def test_a_flood_of_unknown_keys_pushes_out_no_known_one(
    database: Database, ada: Account, clock: ManualClock
) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    counted = CountedDatabase(database)
    authenticator = Authenticator(counted, clock, capacity=3)
    await authenticator.principal(secret)
    for number in range(10):
        with pytest.raises(Unauthenticated):
            await authenticator.principal(f"ebb-{number:043d}")
    before = counted.asked
    await authenticator.principal(secret)
    assert counted.asked == before


async def test_one_who_goes_away_leaves_the_others_their_answer(
    database: Database, ada: Account, authenticator: Authenticator
) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    first = asyncio.create_task(authenticator.principal(secret))
    second = asyncio.create_task(authenticator.principal(secret))
    await asyncio.sleep(0)  # both have begun, and wait for one query
    first.cancel()
    assert (await second).account_id == ada.id
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_database_that_is_away_is_said_so_and_not_remembered(
    database_url: str, database: Database, ada: Account, clock: ManualClock
) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    gone = await Database.connect(database_url)
    authenticator = Authenticator(gone, clock)
    await gone.close()
    with pytest.raises(Unavailable):
        await authenticator.principal(secret)
    with pytest.raises(Unavailable):
        await authenticator.principal(secret)


async def test_revoking_counts_from_the_first_time(database: Database, ada: Account) -> None:
    key, _ = await people.create_key(database, ada.id, now=NOW)
    await people.revoke_key(database, key.id, NOW)
    again = await people.revoke_key(database, key.id, NOW + timedelta(days=1))
    assert again.revoked_at == NOW


async def test_what_cannot_be(database: Database, ada: Account) -> None:
    with pytest.raises(NotFound):
        await people.create_key(database, "acct_none", now=NOW)
    with pytest.raises(NotFound):
        await people.revoke_key(database, "key_none", NOW)
    with pytest.raises(InvalidRequest):
        await people.create_key(database, ada.id, expires_in=timedelta(0), now=NOW)
    with pytest.raises(InvalidRequest):
        await people.create_key(database, ada.id, name="a\nb", now=NOW)


async def test_keys_of_one_account_and_of_all(database: Database, ada: Account) -> None:
    bea = await people.create_account(database, "bea", Role.FREE, NOW)
    first, _ = await people.create_key(database, ada.id, now=NOW)
    second, _ = await people.create_key(database, bea.id, now=NOW + timedelta(seconds=1))
    assert [key.id for key in await keys.list_keys(database)] == [first.id, second.id]
    assert [key.id for key in await keys.list_keys(database, bea.id)] == [second.id]


async def last_use(database: Database) -> datetime | None:
    [key] = await keys.list_keys(database)
    return key.last_used_at


async def test_use_is_recorded_at_most_once_a_minute(
    database: Database, ada: Account, clock: ManualClock, authenticator: Authenticator
) -> None:
    _, secret = await people.create_key(database, ada.id, now=NOW)
    await authenticator.principal(secret)
    assert await last_use(database) is None  # not on the request's path
    assert await authenticator.uses.run_once(clock.now()) == 1
    assert await last_use(database) == NOW
    clock.move(seconds=59)
    await authenticator.principal(secret)
    assert await authenticator.uses.run_once(clock.now()) == 0
    other = KeyUse(database)  # another process that saw the key, too
    other.note((await authenticator.principal(secret)).key_id, clock.now())
    assert await other.run_once(clock.now()) == 1
    assert await last_use(database) == NOW
    clock.move(seconds=1)
    await authenticator.principal(secret)
    assert await authenticator.uses.run_once(clock.now()) == 1
    assert await last_use(database) == NOW + timedelta(minutes=1)


async def test_a_use_survives_a_database_that_is_away(database_url: str, database: Database, ada: Account) -> None:
    key, _ = await people.create_key(database, ada.id, now=NOW)
    gone = await Database.connect(database_url)
    uses = KeyUse(gone)
    uses.note(key.id, NOW)
    await gone.close()
    for _ in range(2):
        with pytest.raises(Unavailable):
            await uses.run_once(NOW)


async def test_every_statement_is_sound(database: Database) -> None:
    async with database.transaction() as conn:
        for name in Q:
            await conn.prepare(Q[name])
