"""A worker never touches a batch whose surface, target or schema version it does not know, in whatever state it is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.domain import NOON, World, answered, jsonl, request

from ebbtide import __version__
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import closing
from ebbtide.batches.cancel import cancel_batch, delete_batch
from ebbtide.batches.model import BATCH_SCHEMA_VERSION, KNOWN, SURFACES, TARGETS, Job
from ebbtide.batches.validation import validate_next

FILE = jsonl([request("a"), request("b")])
KEPT = ("batch_jobs", "batch_items", "batch_queues", "batch_attempts", "batch_result_segments")


async def make_one_in_each_state(world: World) -> dict[str, Job]:
    """A batch for each thing that a worker does to one, each of an account of its own: ready for it to be done."""
    lost = await world.hands()
    jobs = {"take over": await world.many(2, owner=await world.account("lost"))}
    assert len(await lost.claim()) == 2
    jobs["seal"] = await world.validated(FILE)
    jobs["retire"] = await world.many(1, owner=await world.account("retired"))
    jobs["purge"] = await world.many(1, owner=await world.account("deleted"))
    hands = await world.hands()
    await hands.claim()
    await hands.settle(*((work, answered()) for work in list(hands.running)))
    jobs["claim"] = await world.many(2, owner=await world.account("waiting"))
    jobs["expire"] = await world.many(2, owner=await world.account("late"))
    jobs["close"] = await world.many(2, owner=await world.account("cancelled"))
    jobs["validate"] = await world.from_file(FILE)
    await cancel_batch(world.database, owner_of(jobs["close"]), jobs["close"].id, NOON)
    await delete_batch(world.database, owner_of(jobs["purge"]), jobs["purge"].id, NOON)
    await world.value("update batch_jobs set expires_at = $2 where no = $1 returning no", jobs["expire"].no, NOON)
    await world.value(
        "update batch_jobs set results_expires_at = $2 where no = $1 returning no", jobs["retire"].no, NOON
    )
    await world.lapse(lost.worker_no)
    await world.lapse(hands.worker_no)
    world.clock.move(minutes=10)
    return jobs


def owner_of(job: Job) -> Principal:
    return Principal(job.account_id, job.key_id, Role.INTERNAL)


async def do_everything(world: World) -> int:
    """Each thing that a worker does to batches, once; returns how much was done."""
    now = world.clock.now()
    hands = await world.hands()
    done = await validate_next(world.intake, hands.worker_no)
    done += await closing.expire_batches(world.database, now)
    done += await closing.close_batches(world.database, now)
    done += await world.take_over()
    done += await closing.retire_batches(world.database, now)
    done += await closing.purge_batches(world.database, now)
    await world.seal()
    works = await hands.claim()
    await hands.settle(*((work, answered()) for work in works))
    await world.lapse(hands.worker_no)
    return done + len(works)


async def kept(world: World) -> dict[str, list[dict[str, Any]]]:
    """Everything that belongs to batches."""
    return {
        table: [dict(row) for row in await world.fetch(f"select * from {table} order by 1, 2, 3")] for table in KEPT
    }


@pytest.fixture
def older() -> Iterator[None]:
    """This build as one that does not know Gemini's batches: the lists are what every statement is given."""
    surfaces, targets = KNOWN[0].copy(), KNOWN[1].copy()
    KNOWN[0].remove("gemini")
    KNOWN[1].remove("gemini")
    yield
    KNOWN[0][:], KNOWN[1][:] = surfaces, targets


@pytest.mark.parametrize(
    "unknown", ["schema_version = 99", "api_surface = 'gemini'", "target = 'gemini'"], ids=lambda it: it.split()[0]
)
@pytest.mark.usefixtures("older")
async def test_what_a_worker_does_not_know_it_leaves_alone(world: World, unknown: str) -> None:
    jobs = await make_one_in_each_state(world)
    before = {row["no"]: row for row in await world.fetch("select * from batch_jobs")}
    await world.fetch(f"update batch_jobs set {unknown}")
    untouched = await kept(world)

    assert await do_everything(world) == 0
    assert await do_everything(world) == 0
    assert await kept(world) == untouched
    holder = await world.fetch("select ended_at from workers w join batch_items i on i.worker_no = w.no")
    assert [row["ended_at"] for row in holder] == [None, None]  # whoever knows the batch finds it

    column = unknown.split()[0]
    for no, row in before.items():
        await world.fetch(f"update batch_jobs set {column} = $2 where no = $1", no, row[column])
    for _ in range(4):
        await do_everything(world)
        world.clock.move(minutes=10)
    rows = {row["no"]: row for row in await world.fetch("select * from batch_jobs")}
    status = {what: rows[job.no]["status"] if job.no in rows else "gone" for what, job in jobs.items()}
    assert status == {
        "take over": "completed",
        "seal": "completed",
        "retire": "gone",
        "purge": "gone",
        "claim": "completed",
        "expire": "expired",
        "close": "cancelled",
        "validate": "completed",
    }
    assert await world.value("select count(*) from workers w join batch_items i on i.worker_no = w.no") == 0


async def test_what_only_another_knows_keeps_nobody_from_what_is_known(world: World) -> None:
    """Lost workers from which nothing may be taken do not stand in the way of the one behind them."""
    lost, jobs = [], []
    for n in range(12):
        lost.append(await world.hands())
        jobs.append(await world.many(1, owner=await world.account(f"a{n}")))
        assert [work.batch.no for work in await lost[-1].claim()] == [jobs[-1].no]
    for hands in lost:
        await world.lapse(hands.worker_no)
    unknown = [job.no for job in jobs[:-1]]
    await world.fetch("update batch_jobs set schema_version = 99 where no = any($1)", unknown)

    assert await world.take_over() == 1
    assert await world.states(jobs[-1]) == {"r0": "queued"}
    assert await world.value("select count(*) from batch_items where state = 'running'") == 11


async def test_batches_are_created_as_what_this_build_runs(world: World) -> None:
    for job in (await world.many(1), await world.from_file(FILE)):
        row = (await world.fetch("select * from batch_jobs where no = $1", job.no))[0]
        assert row["schema_version"] == BATCH_SCHEMA_VERSION
        assert row["api_surface"] in SURFACES
        assert row["target"] in TARGETS


async def test_a_worker_says_what_it_is_and_what_it_runs(world: World) -> None:
    lease = world.lease(seconds=77)
    async with world.worker(lease=lease):

        async def registered() -> Any:
            return await world.fetch("select * from workers where no = $1", lease.worker_no)

        (row,) = await world.until(registered)
        assert (row["host"], row["version"]) == (socket.gethostname(), __version__)
        assert (row["schema_version"], row["surfaces"], row["targets"]) == (
            BATCH_SCHEMA_VERSION,
            list(SURFACES),
            list(TARGETS),
        )
        assert row["lease_until"] - row["started_at"] >= timedelta(seconds=77)
        assert row["ended_at"] is None
    assert await world.value("select ended_at from workers where no = $1", lease.worker_no) is not None
