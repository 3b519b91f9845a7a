"""Removing an account for good: leases are waited for, nothing of it stays but its log and its charges, and a process
that is killed in the middle leaves the rest to the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Any

import pytest
from tests.domain import NOON, World, answered, insert_open, jsonl, new_account, request
from tests.fake_upstream import Behaviour
from tests.gateway import until
from tests.people import delete_account

from ebbtide.accounts.purges import PURGE_CHANNEL, Purge, get_purge, purge_account
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import end_store
from ebbtide.batches.progress import get_batch
from ebbtide.delivery import store as delivery_store
from ebbtide.delivery.seal import ANY
from ebbtide.errors import Conflict, NotFound, Unauthenticated
from ebbtide.files.leases import reading
from ebbtide.records.audit import AuditFilter, list_audit
from ebbtide.records.content import Packer, add_contents, get_content
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Database
from ebbtide.worker.purge import purge_accounts

KEPT = {"api_logs", "api_logs_default", "api_log_counts", "spend_days", "audit_log", "account_purges"}
_WITH_ACCOUNT = """
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"""


async def purge(world: World, owner: Principal) -> Purge:
    """Do what the duty does until it finds nothing to remove, and tell how far the removal is."""
    while await purge_accounts(world.database, world.clock.now()):
        pass
    return await get_purge(world.database, owner.account_id)


async def left_of(database: Database, owner: Principal) -> dict[str, int]:
    """Rows of the account, by table, beside what is kept."""
    async with database.connection() as conn:
        tables = {row["relname"] for row in await conn.fetch(_WITH_ACCOUNT)} - KEPT
        assert {"batch_jobs", "batch_files", "batch_webhooks", "api_keys"} <= tables
        counts = {
            t: await conn.fetchval(f"select count(*) from {t} where account_id = $1", owner.account_id) for t in tables
        }
        counts["accounts"] = await conn.fetchval("select count(*) from accounts where id = $1", owner.account_id)
        for table in ("batch_items", "batch_queues", "batch_attempts", "batch_result_segments", "batch_file_chunks"):
            counts[table] = await conn.fetchval(f"select count(*) from {table}")
    return {table: count for table, count in counts.items() if count}


async def furnish(world: World) -> None:
    """A webhook with an event, an uploaded file, and a request that was logged with what it said."""
    await world.upload(jsonl([request("a")]))
    change = delivery_store.WebhookChange("https://example.com/", "whsec_x", False, True)
    async with world.database.transaction() as conn:
        await delivery_store.set_webhook(conn, world.owner.account_id, change, NOON)
        await conn.execute(
            "insert into api_logs (at, request_id, account_id, key_id, source, target, model) "
            "values ($1, 'req_1', $2, $3, 'interactive', 'chat', 'chat-1')",
            NOON,
            world.owner.account_id,
            world.owner.key_id,
        )
        await add_contents(conn, [(NOON, "req_1", Packer().pack(b"secret", b"words", 6, 5))])


async def test_everything_goes_once_no_lease_holds_it(world: World) -> None:
    await furnish(world)
    done = await world.many(3)
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    job = await world.many(5)
    world.set(batch_model_concurrency=2)
    running = await hands.claim()
    assert running

    asked = await purge_account(world.database, world.owner.account_id, "acct/key", NOON)
    assert (asked.state, asked.asked_by) == ("purging", "acct/key")
    first = await purge(world, world.owner)
    assert (first.state, first.waits_for, first.batches_left) == ("waiting", ["running_requests"], 2)
    assert await world.value("select closing from batch_jobs where no = $1", job.no) == "cancelled"
    assert await world.value("select deleted_at is not null from batch_jobs where no = $1", done.no)

    await hands.hand_back_waiting()
    await hands.settle(*((work, answered()) for work in running))
    world.clock.move(minutes=2)
    async with reading(world.database, seconds=60, batch_no=done.no):
        held = await purge(world, world.owner)
        assert (held.state, held.waits_for, held.files_left) == ("waiting", ["readers"], 2)  # the lines of both
    world.clock.move(minutes=2)
    ended = await purge(world, world.owner)
    assert (ended.state, ended.waits_for, ended.batches_left, ended.files_left) == ("purged", [], 0, 0)
    assert await left_of(world.database, world.owner) == {}

    logged = await world.value("select count(*) from api_logs where account_id = $1", world.owner.account_id)
    spent = await world.value("select sum(requests) from spend_days where account_id = $1", world.owner.account_id)
    assert (logged, spent) == (3 + len(running) + 1, 3 + len(running))
    async with world.database.connection() as conn:
        assert await get_content(conn, NOON, "req_1") is None
    actions = [
        entry.action for entry in (await list_audit(world.database, AuditFilter(world.owner.account_id))).entries
    ]
    assert actions == ["account.purged", "account.purge", "key.create", "account.create"]


async def test_that_only_a_minute_is_waited_for_is_told(world: World) -> None:
    await purge_account(world.database, world.owner.account_id, "cli:root", NOON)
    assert (await purge(world, world.owner)).waits_for == ["last_minute"]  # of what began just before
    world.clock.move(minutes=1)
    assert (await purge(world, world.owner)).state == "purged"
    other = await world.account("other")
    await world.many(3, owner=other)
    await purge_account(world.database, other.account_id, "cli:root", world.clock.now() - timedelta(minutes=1))
    found = await purge(world, other)
    assert (found.waits_for, found.batches_left) == (["last_minute"], 1)  # of readers that found it just before
    world.clock.move(minutes=1)
    assert (await purge(world, other)).state == "purged"


async def test_workers_do_it_while_they_run_requests(world: World) -> None:
    world.upstream.decide = lambda _: Behaviour(latency=60)
    world.set(batch_model_concurrency=2)
    job = await world.many(50)
    other = await world.account("other")
    async with world.worker():
        await world.upstream.arrived.get()
        await purge_account(world.database, world.owner.account_id, "cli:root", NOON)

        async def waits() -> bool:
            return (await get_purge(world.database, world.owner.account_id)).waits_for == ["running_requests"]

        await world.until(waits)
        world.upstream.decide = None
        world.upstream.hurry()
        kept = await world.many(5, owner=other)

        async def is_purged() -> bool:
            world.clock.move(minutes=1)
            async with world.database.transaction() as conn:
                await notify(conn, PURGE_CHANNEL)
            return (await get_purge(world.database, world.owner.account_id)).state == "purged"

        await world.until(is_purged)
        assert await world.value("select count(*) from batch_jobs where no = $1", job.no) == 0
        assert (await get_batch(world.database, other, kept.id)).total == 5


async def test_deliveries_and_interactive_requests_are_waited_for(world: World) -> None:
    await furnish(world)
    account = world.owner.account_id
    await world.value("update batch_webhooks set busy_until = now() + interval '1 minute' returning 1")
    await world.value(
        "insert into interactive_slots values ($1, 'p', 1, null, now() + interval '1 minute') returning 1", account
    )
    await purge_account(world.database, account, "cli:root", NOON)
    world.clock.move(minutes=5)
    await purge(world, world.owner)
    world.clock.move(minutes=5)
    assert (await purge(world, world.owner)).waits_for == ["interactive_requests", "webhook_delivery"]
    await world.value("update batch_webhooks set busy_until = now() returning 1")
    await world.value("update interactive_slots set lease_until = now() returning 1")
    assert (await purge(world, world.owner)).state == "purged"
    assert await left_of(world.database, world.owner) == {}


@pytest.mark.parametrize("living", [True, False])
async def test_result_files_that_are_being_made_are_waited_for_while_their_worker_lives(
    world: World, living: bool
) -> None:
    job = await world.validated(jsonl([request("a")]))
    hands = await world.hands()
    await hands.settle(*((work, answered()) for work in await hands.claim()))
    sealer = await world.worker_no()
    async with world.database.transaction() as conn:
        assert await end_store.claim_sealing(conn, sealer, ANY) == job.id
    if not living:
        await world.lapse(sealer)
    await purge_account(world.database, world.owner.account_id, "cli:root", NOON)
    waits = (await purge(world, world.owner)).waits_for
    assert waits == (["sealing"] if living else ["last_minute"])
    world.clock.move(minutes=11)
    await purge(world, world.owner)
    world.clock.move(minutes=2)
    assert (await purge(world, world.owner)).state == "purged", "one that takes longer than ten minutes is not"
    assert await left_of(world.database, world.owner) == {}


async def test_nothing_begins_or_is_kept_once_the_removal_is_asked_for(world: World) -> None:
    await purge_account(world.database, world.owner.account_id, "cli:root", NOON)
    with pytest.raises(Unauthenticated):
        await world.many(1)
    with pytest.raises(Unauthenticated):
        await world.upload(b"{}\n")
    await world.value(
        "insert into api_logs (at, request_id, account_id, key_id, source, target, model) "
        "values ($1, 'req_2', $2, 'k', 'interactive', 'chat', 'm') returning 1",
        NOON,
        world.owner.account_id,
    )
    async with world.database.transaction() as conn:
        await add_contents(conn, [(NOON, "req_2", Packer().pack(b"late", b"words", 4, 5))])
        assert await get_content(conn, NOON, "req_2") is None


async def test_who_may_be_removed(world: World) -> None:
    with pytest.raises(NotFound):
        await purge_account(world.database, "acct_nobody", "cli:root", NOON)
    admin = await world.account("root", Role.ADMIN)
    with pytest.raises(Conflict):
        await purge_account(world.database, admin.account_id, "cli:root", NOON)
    await delete_account(world.database, world.owner.account_id)
    first = await purge_account(world.database, world.owner.account_id, "cli:root", NOON)
    again = await purge_account(world.database, world.owner.account_id, "cli:other", NOON + timedelta(hours=1))
    assert first == again
    other = await world.account("owner")  # the name is free
    world.clock.move(minutes=5)
    assert (await purge(world, world.owner)).state == "purged"
    assert await world.value("select count(*) from accounts where id = $1", other.account_id) == 1
    assert (await purge_account(world.database, world.owner.account_id, "cli:root", NOON)).state == "purged"


async def test_what_only_a_newer_release_knows_is_left_to_it(world: World) -> None:
    async with world.database.transaction() as conn:
        await insert_open(conn, world.owner, {"chat-1": 2})
        await conn.execute("update batch_jobs set schema_version = 99")
    await purge_account(world.database, world.owner.account_id, "cli:root", NOON)
    world.clock.move(minutes=5)
    found = await purge(world, world.owner)
    assert (found.state, found.waits_for, found.batches_left) == ("waiting", ["newer_release"], 1)


@pytest.mark.processes
async def test_a_process_killed_in_the_middle_leaves_the_rest_to_another(
    database: Database, database_url: str, listen_url: str
) -> None:
    owner = await new_account(database, "big", Role.INTERNAL, NOON)
    async with database.transaction() as conn:
        batch_no = await insert_open(conn, owner, {"chat-1": 12_000})
    await purge_account(database, owner.account_id, "cli:root", NOON)
    await purge_accounts(database, NOON)  # hides the batch, long before the worker's time
    environ = {**os.environ, "EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
    async with database.connection() as conn:
        last = await conn.fetchval("select max(id) from batch_items where batch_no = $1", batch_no)

    async def is_stuck() -> Any:
        """Two of three steps are done, and the third one waits for a row."""
        async with database.connection() as conn:
            waiting = await conn.fetchval(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            )
        return waiting and (await get_purge(database, owner.account_id)).rows_removed == 10_000

    async with database.transaction() as holder:
        await holder.execute("select from batch_items where batch_no = $1 and id = $2 for update", batch_no, last)
        worker = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ebbtide", "worker"), env=environ, stdout=asyncio.subprocess.DEVNULL
        )
        try:
            await until(is_stuck, within=60)
        finally:
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
    half = await get_purge(database, owner.account_id)
    assert (half.state, half.rows_removed) == ("purging", 10_000)
    assert await left_of(database, owner) != {}

    async def is_purged() -> bool:
        await purge_accounts(database, NOON + timedelta(hours=1))
        return (await get_purge(database, owner.account_id)).state == "purged"

    await until(is_purged)
    assert await left_of(database, owner) == {}
