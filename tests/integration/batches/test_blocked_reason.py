"""Why a batch waits, from the rows that say so: each reason, their order, and when there is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.people import create_account, create_key, set_role

from ebbtide import ids
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import intake_store
from ebbtide.batches.model import Item
from ebbtide.batches.progress import Moment, get_batch, list_batches
from ebbtide.storage.pool import Database

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER, EARLIER = NOON + timedelta(minutes=1), NOON - timedelta(minutes=1)
MODEL_STATE = "insert into batch_model_state (model, rest_reason, rest_until, room_reason) values ($1, $2, $3, $4)"
USER_STATE = "update batch_user_state set blocked_reason = $1, blocked_until = $2, at_cap = $3"
KEY_STATE = "insert into batch_key_state (key_id, blocked_reason, blocked_until) select id, $1, $2 from api_keys"


@pytest.fixture
async def owner(database: Database) -> Principal:
    account = await create_account(database, "owner", Role.INTERNAL, NOON)
    key, _ = await create_key(database, account.id, now=NOON)
    return Principal(account.id, key.id, Role.INTERNAL)


async def waiting_batch(database: Database, owner: Principal) -> str:
    """An open batch with one request for m-1 and one for m-2."""
    new = intake_store.NewBatch(
        id=ids.batch_id(),
        account_id=owner.account_id,
        key_id=owner.key_id,
        api_surface="openai_inline",
        target="chat",
        input_id=ids.file_id(),
        metadata=None,
        completion_window="24h",
        retention_days=7,
        phase="open",
        created_at=NOON,
        expires_at=None,
        total=2,
    )
    async with database.transaction() as conn:
        batch_no = await intake_store.insert_batch(conn, new)
        await intake_store.ensure_user_state(conn, owner.account_id, NOON)
        items = [Item(model, model, 0, 0, 2, None) for model in ("m-1", "m-2")]
        await intake_store.add_items(conn, batch_no, items, NOON)
    return new.id


async def run(database: Database, *statements: tuple[Any, ...]) -> None:
    async with database.transaction() as conn:
        for statement in statements:
            await conn.execute(*statement)


async def reason(database: Database, owner: Principal, batch_id: str, *, min_role: str = "internal") -> str | None:
    return (await get_batch(database, owner, batch_id, Moment(NOON, min_role))).blocked_reason


async def test_every_reason_in_its_order(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    assert await reason(database, owner, batch_id) is None
    steps: list[tuple[tuple[Any, ...], str]] = [
        ((USER_STATE, None, None, True), "account_cap"),
        ((MODEL_STATE, "m-2", None, None, "no_route_up"), "no_route_up"),
        (("update batch_model_state set room_reason = 'model_cap'",), "model_cap"),
        (("update batch_model_state set room_reason = 'yielding'",), "yielding"),
        ((MODEL_STATE, "m-1", "model_paused", LATER, None), "model_paused"),
        (("update batch_model_state set rest_reason = 'model_queued' where model = 'm-1'",), "model_queued"),
        (("update accounts set role = 'pro'",), "role"),
        ((KEY_STATE, "key_budget", LATER), "key_budget"),
        ((USER_STATE, "monthly_quota", LATER, True), "monthly_quota"),
        ((USER_STATE, "daily_quota", LATER, True), "daily_quota"),
    ]
    for statement, told in steps:
        await run(database, statement)
        assert await reason(database, owner, batch_id) == told


async def test_what_is_over_is_no_reason(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    await run(
        database,
        (USER_STATE, "daily_quota", EARLIER, False),
        (KEY_STATE, "key_budget", EARLIER),
        (MODEL_STATE, "m-1", "model_paused", EARLIER, None),
        (MODEL_STATE, "m-3", "model_paused", LATER, "model_cap"),
    )
    assert await reason(database, owner, batch_id) is None


async def test_running_requests_in_the_way_are_no_pause(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    await run(database, (KEY_STATE, "reserved", LATER))
    assert await reason(database, owner, batch_id) is None


async def test_a_model_for_which_nothing_waits_any_more_is_no_reason(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    await run(
        database,
        (MODEL_STATE, "m-1", None, None, "model_cap"),
        ("update batch_queues set queued = 0 where model = 'm-1'",),
    )
    assert await reason(database, owner, batch_id) is None


async def test_a_batch_that_runs_or_ends_does_not_wait(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    await run(database, (USER_STATE, "daily_quota", LATER, False), ("update batch_queues set running = 1",))
    assert await reason(database, owner, batch_id) is None
    await run(database, ("update batch_queues set running = 0",))
    assert await reason(database, owner, batch_id) == "daily_quota"
    await run(database, ("update batch_jobs set closing = 'cancelled', closing_at = $1", NOON))
    assert await reason(database, owner, batch_id) is None


async def test_the_role_is_the_one_that_the_account_has_now(database: Database, owner: Principal) -> None:
    batch_id = await waiting_batch(database, owner)
    assert await reason(database, owner, batch_id, min_role="admin") == "role"
    await set_role(database, owner.account_id, Role.ADMIN)
    assert await reason(database, owner, batch_id, min_role="admin") is None


async def test_a_list_tells_every_batch_its_reason(database: Database, owner: Principal) -> None:
    batch_ids = [await waiting_batch(database, owner) for _ in range(3)]
    await run(database, (USER_STATE, "daily_quota", LATER, False))
    page = await list_batches(database, owner, None, 10, Moment(NOON, "internal"))
    assert [(job.id, job.blocked_reason) for job in page.items] == [(each, "daily_quota") for each in batch_ids[::-1]]
    without = await list_batches(database, owner, None, 10)
    assert {job.blocked_reason for job in without.items} == {None}
