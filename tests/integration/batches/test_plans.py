"""Plans stay good as the queue grows: what runs all day goes through its index, never over the table."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.domain import NOON, World, insert_open, make_world

from ebbtide.batches.model import KNOWN
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

BATCHES, ITEMS = 400, 600  # 240,000 items


@pytest.fixture
async def crowded(database: Database) -> AsyncIterator[World]:
    """Many batches of many items: half of the batches are done, of the others most items are."""
    async with make_world(database) as world:
        async with database.transaction() as conn:
            for _ in range(BATCHES):
                await insert_open(conn, world.owner, {"chat-1": 1})
            await conn.execute(
                """insert into batch_items
                       (batch_no, model, ready_at, custom_id, chunk, line_offset, line_length, state, segment)
                   select no, 'chat-1', $2, 'n' || n, 0, n, 1,
                          case when no % 2 = 0 or n % 10 > 0 then 'completed' else 'queued' end,
                          case when no % 2 = 0 or n % 10 > 0 then 1 end
                   from batch_jobs, generate_series(1, $1::int) n""",
                ITEMS,
                NOON,
            )
            await conn.execute("update batch_queues set queued = case when batch_no % 2 = 0 then 0 else 61 end")
        async with database.connection() as conn:
            await conn.execute("analyze")
        yield world


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def explain(world: World, file: str, name: str, *values: Any) -> dict[str, Any]:
    """The plan that is really run, in a transaction that is undone."""
    async with world.database.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            sql = "explain (analyze, format json) " + load_queries("ebbtide.batches", file)[name]
            found: dict[str, Any] = json.loads(await conn.fetchval(sql, *values))[0]["Plan"]
            return found
        finally:
            await transaction.rollback()


def scans_of(plan: dict[str, Any], table: str) -> set[tuple[str, str | None]]:
    """How a table is read."""
    return {
        (node["Node Type"], node.get("Index Name"))
        for node in nodes(plan)
        if node.get("Relation Name") == table and "Scan" in node["Node Type"]
    }


def most_rows(plan: dict[str, Any], table: str) -> float:
    """The most rows that one node reads of a table."""
    return max(
        (
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in nodes(plan)
            if node.get("Relation Name") == table and "Scan" in node["Node Type"]
        ),
        default=0,
    )


async def test_the_plans_of_a_busy_queue(crowded: World) -> None:
    world = crowded
    open_ones = [
        row["no"] for row in await world.fetch("select no from batch_jobs where no % 2 = 1 order by no limit 8")
    ]
    worker_no = await world.worker_no()

    claim = await explain(world, "claim.sql", "claim_items", open_ones, [8] * 8, "chat-1", worker_no, NOON)
    assert scans_of(claim, "batch_items") == {
        ("Index Scan", "batch_items_queued"),
        ("Tid Scan", None),
    }
    assert most_rows(claim, "batch_items") <= 64

    page = await explain(world, "read.sql", "list_items", open_ones[0], 300, 101)
    assert scans_of(page, "batch_items") == {("Index Scan", "batch_items_pkey")}
    assert most_rows(page, "batch_items") <= 101

    candidates = await explain(world, "claim.sql", "list_candidates", "chat-1", NOON, *KNOWN, 5_000, [])
    assert scans_of(candidates, "batch_items") == set()
    assert most_rows(candidates, "batch_jobs") <= BATCHES
    assert most_rows(candidates, "batch_queues") <= BATCHES

    waiting = await explain(world, "claim.sql", "waiting_models", NOON, *KNOWN)
    assert scans_of(waiting, "batch_items") == set()

    held = await explain(world, "workers.sql", "held_batches", worker_no, 50, *KNOWN)
    assert {index for _, index in scans_of(held, "batch_items")} == {"batch_items_running"}

    swept = await explain(world, "end.sql", "cancel", open_ones[0], 10)
    assert "Seq Scan" not in {kind for kind, _ in scans_of(swept, "batch_items")}
    assert most_rows(swept, "batch_items") <= ITEMS + 1

    batches = await explain(world, "read.sql", "list_batches", world.owner.account_id, None, 21)
    assert most_rows(batches, "batch_jobs") <= 21

    closing = await explain(world, "end.sql", "closing_batches", *KNOWN)
    assert scans_of(closing, "batch_items") == set()

    owner = world.owner.account_id
    for file, name, values in (
        ("removal.sql", "standing_of_account", (owner, *KNOWN)),
        ("removal.sql", "idle_of_account", (owner, False, 50, *KNOWN)),
        ("overview.sql", "list_workers", (0, 100)),
    ):
        plan = await explain(world, file, name, *values)
        assert {index for _, index in scans_of(plan, "batch_items")} <= {"batch_items_running"}, name


@pytest.mark.parametrize(
    ("file", "name", "values"),
    [
        ("claim.sql", "waiting_models", (NOON, *KNOWN)),
        ("claim.sql", "list_candidates", ("chat-1", NOON, *KNOWN, 5_000, [])),
        ("claim.sql", "lock_claimable", ([1], NOON)),
        ("claim.sql", "unstartable_batches", ([1], NOON, ["internal"])),
        ("intake.sql", "lock_creator", ("a", "k", NOON)),
        ("model_limits.sql", "list_model_figures", ([], NOON, *KNOWN)),
        ("standing.sql", "lock_user_states", (["a"], NOON)),
        ("standing.sql", "add_service", (["a"], [1.0], NOON)),
    ],
)
async def test_rules_that_are_functions_cost_no_call(
    world: World, file: str, name: str, values: tuple[Any, ...]
) -> None:
    """They are written out in the plan, so that it is the one that the rule written out would have."""
    async with world.database.connection() as conn:
        sql = "explain (verbose) " + load_queries("ebbtide.batches", file)[name]
        plan = "\n".join(row[0] for row in await conn.fetch(sql, *values))
    assert not re.search("batch_may_start|may_act|recent_service", plan), plan


async def test_candidates_are_found_in_linear_time_without_statistics(own_world: World) -> None:
    """A young database has none, and its plan once read every batch for every batch."""
    world = own_world
    async with world.database.transaction() as conn:
        for _ in range(300):
            await insert_open(conn, world.owner, {"chat-1": 1})
    for name, values in (("list_candidates", ("chat-1", NOON, *KNOWN, 5_000, [])), ("waiting_models", (NOON, *KNOWN))):
        plan = await explain(world, "claim.sql", name, *values)
        assert most_rows(plan, "batch_jobs") <= 300, name


async def test_claims_never_take_more_than_asked_without_statistics(own_world: World) -> None:
    world = own_world
    async with world.database.transaction() as conn:
        batch_no = await insert_open(conn, world.owner, {"chat-1": 200})
    worker_no = await world.worker_no()
    plan = await explain(world, "claim.sql", "claim_items", [batch_no], [10], "chat-1", worker_no, NOON)
    assert plan["Actual Rows"] == 10


@pytest.mark.parametrize("name", ["cancel", "expire", "run_out", "give_up"])
async def test_a_closing_step_on_a_young_table_reads_the_batch_once(database: Database, name: str) -> None:
    """Without statistics the planner once went through all of a batch for each item of a step: a minute for 50,000."""
    async with make_world(database) as world:
        async with database.transaction() as conn:
            batch_no = await insert_open(conn, world.owner, {"chat-1": 5_000})
        values = {"give_up": ("batch_failed", "Not run")}.get(name, ())
        plan = await explain(world, "end.sql", name, batch_no, 2_000, *values)
        most = max(int(node["Actual Rows"]) * int(node["Actual Loops"]) for node in nodes(plan))
        assert most <= 5_000
        assert max(int(node.get("Rows Removed by Join Filter", 0)) for node in nodes(plan)) == 0
