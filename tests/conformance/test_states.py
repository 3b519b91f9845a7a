"""Every verb from every state: the statement of that name moves exactly what the tables in batches/states.py allow."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

import pytest
from tests.domain import NOON, World, insert_open

from ebbtide.batches import claim_store, end_store, intake_store, settle_store, workers_store
from ebbtide.batches.model import Item
from ebbtide.batches.states import (
    BATCH_MOVES,
    BATCH_PHASES,
    CLOSINGS,
    FINAL_ITEMS,
    FINAL_STATUSES,
    ITEM_MOVES,
    ITEM_STATES,
    Moves,
    final_states,
)
from ebbtide.dialects.openai.batch import BatchStatus, ItemStatus
from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

CELLS = [(verb, state) for verb in ITEM_MOVES for state in sorted(ITEM_STATES)]
PHASE_CELLS = [(verb, phase) for verb in BATCH_MOVES for phase in sorted(BATCH_PHASES)]
EPOCH = 3
LATER = NOON + timedelta(minutes=1)


@dataclass(frozen=True)
class Subject:
    """One item in some state, and the worker that is or was its."""

    batch_no: int
    id: int
    worker_no: int

    @property
    def head(self) -> tuple[int, int, int]:
        return self.batch_no, self.id, EPOCH


Act = Callable[[Connection, Subject], Awaitable[Any]]

ITEM_VERBS: dict[str, Act] = {
    "claim": lambda conn, it: claim_store.claim_items(conn, "chat-1", [(it.batch_no, 5)], it.worker_no, NOON),
    "complete": lambda conn, it: settle_store.complete(conn, [settle_store.CompletedRow(*it.head, 1, 0, 2, "req_x")]),
    "fail": lambda conn, it: settle_store.fail(conn, [settle_store.FailedRow(*it.head, "c", "m", 500, "req_x")]),
    "retry": lambda conn, it: settle_store.retry(conn, [settle_store.RetriedRow(*it.head, "c", "m", 500, 1, LATER)]),
    "hand_back": lambda conn, it: settle_store.hand_back(conn, [settle_store.HandedBackRow(*it.head)]),
    "cancel": lambda conn, it: end_store.end_waiting(conn, "cancelled", it.batch_no, 5),
    "expire": lambda conn, it: end_store.end_waiting(conn, "expired", it.batch_no, 5),
    "run_out": lambda conn, it: end_store.end_waiting(conn, "expired", it.batch_no, 5),
    "give_up": lambda conn, it: end_store.end_waiting(conn, "failed", it.batch_no, 5),
}


async def make_item(world: World, conn: Connection, state: str, *, tried: bool) -> Subject:
    worker_no = await world.worker_no()
    batch_no = await insert_open(conn, world.owner, {"chat-1": 1})
    item_id = await conn.fetchval(
        """update batch_items set state = $2, claim_epoch = $3, worker_no = case $2 when 'running' then $4::bigint end,
               segment = case $2 when 'completed' then 1 end,
               attempts = case when $5 then 1 else 0 end,
               error_code = case when $2 = 'failed' or $5 then 'upstream_error' end
           where batch_no = $1 returning id""",
        batch_no,
        state,
        EPOCH,
        worker_no,
        tried,
    )
    return Subject(batch_no, item_id, worker_no)


async def row_of(conn: Connection, it: Subject) -> dict[str, Any]:
    row = await conn.fetchrow("select *, xmin from batch_items where batch_no = $1", it.batch_no)
    assert row is not None
    return dict(row)


@pytest.mark.parametrize(("verb", "state"), CELLS, ids=[f"{verb}-{state}" for verb, state in CELLS])
async def test_every_item_verb_from_every_state(world: World, verb: str, state: str) -> None:
    async with world.database.transaction() as conn:
        it = await make_item(world, conn, state, tried=verb == "run_out")
        before = await row_of(conn, it)
        await ITEM_VERBS[verb](conn, it)
        after = await row_of(conn, it)
    if state in ITEM_MOVES[verb]:
        assert after["state"] == ITEM_MOVES[verb][state]
        assert after["claim_epoch"] == EPOCH + (verb == "claim")
        assert (after["worker_no"] is not None) == (after["state"] == "running")
    else:
        assert after == before


@pytest.mark.parametrize("verb", ["complete", "fail", "retry", "hand_back"])
@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
async def test_a_claim_that_no_longer_stands_moves_nothing(world: World, verb: str, epoch: int) -> None:
    async with world.database.transaction() as conn:
        it = await make_item(world, conn, "running", tried=False)
        await conn.execute("update batch_items set claim_epoch = $2 where batch_no = $1", it.batch_no, epoch)
        before = await row_of(conn, it)
        assert await ITEM_VERBS[verb](conn, it) == set()
        assert await row_of(conn, it) == before


async def test_a_worker_holds_its_running_items_alone(world: World) -> None:
    async with world.database.transaction() as conn:
        for state in sorted(ITEM_STATES):
            it = await make_item(world, conn, state, tried=False)
            held = await workers_store.held_items(conn, it.worker_no, [it.batch_no])
            assert [item.id for item in held] == ([it.id] if state == "running" else [])
            assert await workers_store.held_items(conn, it.worker_no + 1, [it.batch_no]) == []


async def test_an_item_that_is_not_ready_is_not_claimed(world: World) -> None:
    async with world.database.transaction() as conn:
        it = await make_item(world, conn, "queued", tried=False)
        await conn.execute("update batch_items set ready_at = $2 where batch_no = $1", it.batch_no, LATER)
        assert await claim_store.claim_items(conn, "chat-1", [(it.batch_no, 5)], it.worker_no, NOON) == []
        assert len(await claim_store.claim_items(conn, "chat-1", [(it.batch_no, 5)], it.worker_no, LATER)) == 1


async def test_a_tried_item_ends_with_its_last_error_and_an_untried_one_without(world: World) -> None:
    async with world.database.transaction() as conn:
        for closing, untried in (("expired", ("expired", None)), ("failed", ("failed", "batch_failed"))):
            for tried, told in ((True, ("failed", "upstream_error")), (False, untried)):
                it = await make_item(world, conn, "queued", tried=tried)
                await end_store.end_waiting(conn, closing, it.batch_no, 5)
                row = await row_of(conn, it)
                assert (row["state"], row["error_code"]) == told


def test_each_verb_is_the_statement_that_the_table_says() -> None:
    files = ("claim.sql", "settle.sql", "end.sql", "intake.sql")
    names = {name for file in files for name in load_queries("ebbtide.batches", file)}
    assert set(ITEM_MOVES) - {"claim"} <= names
    assert {"claim_items", "open_batch", "reject_batch", "cancel_batch", "finish_batches", "seal"} <= names
    assert (set(ITEM_VERBS), set(BATCH_VERBS)) == (set(ITEM_MOVES), set(BATCH_MOVES))


# Batches: (surface, the act). Each needs the batch as its verb expects it, apart from the phase.

BatchAct = Callable[[Connection, int], Awaitable[Any]]
OWNER = 77


async def _cancel(conn: Connection, batch_no: int) -> None:
    batch_id = await conn.fetchval("select id from batch_jobs where no = $1", batch_no)
    await end_store.cancel_batch(conn, batch_id, NOON)


BATCH_VERBS: dict[str, tuple[str, BatchAct]] = {
    "open": (
        "openai_file",
        lambda conn, no: intake_store.open_batch(conn, no, [Item("a", "chat-1", 0, 0, 2, None)], NOON),
    ),
    "reject": ("openai_file", lambda conn, no: intake_store.reject_batch(conn, no, "[]", NOON)),
    "cancel_unread": ("openai_file", _cancel),
    "finish": ("openai_file", lambda conn, no: settle_store.finish_batches(conn, [no], NOON)),
    "finish_direct": ("openai_inline", lambda conn, no: settle_store.finish_batches(conn, [no], NOON)),
    "seal": (
        "openai_file",
        lambda conn, no: end_store.seal(conn, no, OWNER, end_store.ResultFiles(None, None), NOON),
    ),
}


@pytest.mark.parametrize(("verb", "phase"), PHASE_CELLS, ids=[f"{verb}-{phase}" for verb, phase in PHASE_CELLS])
async def test_every_batch_verb_from_every_phase(world: World, verb: str, phase: str) -> None:
    surface, act = BATCH_VERBS[verb]
    async with world.database.transaction() as conn:
        batch_no = await insert_open(conn, world.owner, {"chat-1": 1}, api_surface=surface)
        await conn.execute(
            """update batch_jobs set phase = $2, completed = 1, owner_no = $3,
                   sealed_at = case $2 when 'sealed' then created_at end,
                   results_expires_at = case $2 when 'sealed' then created_at end
               where no = $1""",
            batch_no,
            phase,
            OWNER,
        )
        await act(conn, batch_no)
        row = await conn.fetchrow("select * from batch_jobs where no = $1", batch_no)
    assert row is not None
    assert row["phase"] == BATCH_MOVES[verb].get(phase, phase)
    if verb == "cancel_unread":
        assert (row["closing"] == "cancelled") == (phase in ("validating", "open"))


@pytest.mark.parametrize("why", ["deleted", "not mine"])
async def test_nobody_else_seals(world: World, why: str) -> None:
    async with world.database.transaction() as conn:
        batch_no = await insert_open(conn, world.owner, {"chat-1": 1}, api_surface="openai_file")
        await conn.execute(
            "update batch_jobs set phase = 'sealing', completed = 1, owner_no = 1 where no = $1", batch_no
        )
        if why == "deleted":
            await end_store.delete_batch(conn, batch_no, NOON)
        owner = 1 if why == "deleted" else 2
        assert await end_store.seal(conn, batch_no, owner, end_store.ResultFiles(None, None), NOON) is None
        assert await conn.fetchval("select phase from batch_jobs where no = $1", batch_no) == "sealing"


async def test_an_unfinished_batch_does_not_finish(world: World) -> None:
    async with world.database.transaction() as conn:
        batch_no = await insert_open(conn, world.owner, {"chat-1": 2})
        await conn.execute("update batch_jobs set completed = 1 where no = $1", batch_no)
        assert await settle_store.finish_batches(conn, [batch_no], NOON) == {}


async def test_a_batch_is_stopped_once(world: World) -> None:
    async with world.database.transaction() as conn:
        batch_no = await insert_open(conn, world.owner, {"chat-1": 1})
        assert await end_store.fail_batch(conn, batch_no, "owner_unauthorized", "m", NOON)
        assert not await end_store.fail_batch(conn, batch_no, "other", "m", LATER)
        await _cancel(conn, batch_no)
        row = await conn.fetchrow("select closing, closing_at, error_code from batch_jobs where no = $1", batch_no)
        assert row is not None
        assert tuple(row) == ("failed", NOON, "owner_unauthorized")


# The same words everywhere


def test_final_states() -> None:
    assert frozenset({"completed", "failed", "cancelled", "expired"}) == FINAL_ITEMS
    assert final_states(BATCH_MOVES) == {"sealed"}
    assert set(get_args(ItemStatus)) == ITEM_STATES
    assert set(get_args(BatchStatus)) > FINAL_STATUSES


@pytest.mark.parametrize("moves", [ITEM_MOVES, BATCH_MOVES], ids=["items", "batches"])
def test_nothing_leaves_a_final_state_and_nothing_stays_where_it_is(moves: Moves) -> None:
    final = final_states(moves)
    for verb, move in moves.items():
        for state, to in move.items():
            assert state not in final, verb
            assert state != to, verb


async def listed(world: World, table: str, column: str) -> set[str]:
    """The words that a table's constraint allows in a column."""
    constraints = await world.fetch(
        """select pg_get_constraintdef(oid) as def from pg_constraint
           where conrelid = $1::text::regclass and contype = 'c'""",
        table,
    )
    pattern = re.compile(rf"\(\({column} = ANY \(ARRAY\[(.*)\]\)\)\)")
    found = [match[1] for row in constraints if (match := pattern.search(row["def"]))]
    assert len(found) == 1, found
    return set(re.findall(r"'(\w+)'", found[0]))


async def test_the_schema_allows_the_same_words(world: World) -> None:
    assert await listed(world, "batch_items", "state") == ITEM_STATES
    assert await listed(world, "batch_jobs", "phase") == BATCH_PHASES
    assert await listed(world, "batch_jobs", "closing") == CLOSINGS


async def test_every_status_the_function_can_give_is_one_of_the_documented(world: World) -> None:
    rows = await world.fetch(
        """select distinct batch_status(phase, closing, started, expired) as status
           from unnest($1::text[]) as phase, unnest(array[null, 'cancelled', 'expired', 'failed']) as closing,
                unnest(array[null, now()]) as started, unnest(array[0, 1]) as expired""",
        sorted(BATCH_PHASES),
    )
    assert {row["status"] for row in rows} == set(get_args(BatchStatus))


STATUSES = [
    ("validating", None, False, 0, "validating"),
    ("open", None, False, 0, "validating"),
    ("open", None, True, 0, "in_progress"),
    ("open", "cancelled", True, 0, "cancelling"),
    ("open", "cancelled", False, 0, "cancelling"),
    ("open", "expired", True, 3, "in_progress"),
    ("open", "failed", True, 0, "in_progress"),
    ("sealing", None, True, 0, "finalizing"),
    ("sealing", "cancelled", True, 0, "cancelling"),
    ("sealing", "expired", True, 3, "finalizing"),
    ("sealed", None, True, 0, "completed"),
    ("sealed", "cancelled", True, 0, "cancelled"),
    ("sealed", "expired", True, 3, "expired"),
    ("sealed", "expired", True, 0, "completed"),
    ("sealed", "failed", False, 0, "failed"),
]


@pytest.mark.parametrize(("phase", "closing", "started", "expired", "status"), STATUSES)
async def test_the_status_table(
    world: World, phase: str, closing: str | None, started: bool, expired: int, status: str
) -> None:
    given = await world.value(
        "select batch_status($1, $2, case when $3 then now() end, $4)", phase, closing, started, expired
    )
    assert given == status
