"""Processes that are killed, stopped and frozen in mid-run: every request ends once, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.domain import books
from tests.fake_upstream import Behaviour, FakeUpstream, Received
from tests.gateway import request_line, until
from tests.processes import SHORT_LEASE, GatewayProcess, PostgresProcesses, Processes, holds, send
from tests.recount import attempts_by_custom_id, completed_items, running_of

from ebbtide.storage.migrate import SCHEMA_VERSION
from ebbtide.storage.pool import Connection, Database

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def lines(count: int, prefix: str) -> list[dict[str, object]]:
    """Chat requests whose text is their custom_id, so that the upstream can tell them apart."""
    return [request_line(name, text=name) for name in (f"{prefix}-{n}" for n in range(count))]


class Feeder:
    """Keeps the queue from running dry: makes batches of `size` requests, each under ids of its own."""

    def __init__(self, database: Database, size: int) -> None:
        self._database = database
        self._size = size
        self.batches: list[str] = []

    async def feed(self, gateway: GatewayProcess) -> None:
        """One more batch, unless enough requests wait."""
        async with self._database.connection() as conn:
            waiting = await conn.fetchval("select coalesce(sum(queued), 0) from batch_queues")
        if waiting < self._size:
            self.batches.append(await gateway.create(lines(self._size, f"b{len(self.batches)}")))

    async def until_busy(self, gateway: GatewayProcess, pids: Sequence[int], least: int = 8) -> None:
        """Feed through `gateway` until each of the processes holds at least that many requests."""

        async def busy() -> bool:
            await self.feed(gateway)
            return min([await running_of(self._database, [pid]) for pid in pids]) >= least

        await until(busy, within=30)


class Watch:
    """Knows at which moment an item was seen to be completed in the database, and that it is never sent after it."""

    def __init__(self, database: Database, upstream: FakeUpstream) -> None:
        self._database = database
        self._upstream = upstream
        self._seen: dict[str, float] = {}

    async def look(self) -> None:
        completed = await completed_items(self._database)
        now = time.monotonic()
        for custom_id in completed:
            self._seen.setdefault(custom_id, now)

    def check(self) -> None:
        late = [r.text for r in self._upstream.requests if r.at > self._seen.get(r.text, float("inf"))]
        assert late == []


async def check_all_completed(database: Database, upstream: FakeUpstream) -> int:
    """Every item ended once, and was sent once, but for the tries on record as lost. Returns how many those are."""
    assert await books(database) == {}
    attempts = await attempts_by_custom_id(database)
    received = Counter(request.text for request in upstream.requests)
    assert {name: a.completed for name, a in attempts.items()} == dict.fromkeys(attempts, 1)
    assert {name: a.attempts for name, a in attempts.items()} == {n: 1 + a.lost for n, a in attempts.items()}
    sent_too_often = {name: count for name, count in received.items() if count > 1 + attempts[name].lost}
    assert sent_too_often == {}
    async with database.connection() as conn:
        assert await conn.fetchval("select count(*) from batch_jobs where phase <> 'sealed'") == 0
        assert await conn.fetchval("select count(*) from batch_queues") == 0
    return sum(a.lost for a in attempts.values())


async def results_of(gateway: GatewayProcess, batch_id: str) -> list[str]:
    answer = await gateway.call("GET", f"/v1/batches/{batch_id}/output.jsonl")
    assert answer.status == 200
    return [line.split(b'"custom_id":"')[1].split(b'"')[0].decode() for line in answer.body.splitlines()]


async def test_ten_kills_in_a_row(processes: Processes, database: Database, upstream: FakeUpstream) -> None:
    """Two gateways on one database; again and again one of them is killed while it has requests running."""
    upstream.latency = 0.1
    cap = {"BATCH_MODEL_CONCURRENCY": "64", "BATCH_MAX_ACTIVE_PER_USER": "100", **SHORT_LEASE}
    alive = [await processes.start(**cap), await processes.start(**cap)]
    watch, feeder = Watch(database, upstream), Feeder(database, 300)
    for kill in range(10):
        victim, survivor = alive[kill % 2], alive[1 - kill % 2]
        await feeder.until_busy(survivor, [victim.pid])
        victim.kill()
        await watch.look()
        assert await books(database) == {}
        alive[kill % 2] = await processes.start(**cap)
        await watch.look()
    for batch_id in feeder.batches:
        batch = await alive[0].ended(batch_id)
        await watch.look()
        assert (batch["status"], batch["request_counts"]["completed"]) == ("completed", 300)
        results = await results_of(alive[1], batch_id)
        assert len(results) == len(set(results)) == 300
    lost = await check_all_completed(database, upstream)
    assert lost >= 10 * 8
    watch.check()


async def test_everything_is_killed(embedded: Processes, postgres: PostgresProcesses, upstream: FakeUpstream) -> None:
    """Both gateways and every process of the database are killed; the next start goes on from what was committed."""
    upstream.latency = 0.05
    alive = [await embedded.start(**SHORT_LEASE), await embedded.start(**SHORT_LEASE)]
    batches = [await alive[0].create(lines(1_500, "a")), await alive[1].create(lines(500, "b"))]
    await holds(lambda: len(upstream.requests) > 400)
    for gateway in alive:
        gateway.kill()
    postgres.kill()
    in_vain = len(upstream.requests)
    killed_at = time.monotonic()
    gateway = await embedded.start(**SHORT_LEASE)
    async with await Database.connect(postgres.url) as database:
        committed = await _completed_before(database, gateway)
        for batch_id in batches:
            assert (await gateway.ended(batch_id))["status"] == "completed"
        lost = await check_all_completed(database, upstream)
    assert in_vain > len(committed) > 100
    assert [r.text for r in upstream.requests if r.at > killed_at and r.text in committed] == []
    assert lost > 0
    assert await gateway.stop() == 0
    assert postgres.pids() == []


async def _completed_before(database: Database, gateway: GatewayProcess) -> set[str]:
    """The items that were completed by workers of earlier processes."""
    async with database.connection() as conn:
        rows = await conn.fetch(
            "select custom_id from batch_items i join batch_attempts a on (a.batch_no, a.item_id) = (i.batch_no, i.id) "
            "join workers w on w.no = a.worker_no where a.outcome = 'completed' and w.pid <> $1",
            gateway.pid,
        )
    return {row["custom_id"] for row in rows}


async def _states(conn: Connection) -> dict[str, int]:
    rows = await conn.fetch("select state, count(*)::int as items from batch_items group by 1")
    return {row["state"]: row["items"] for row in rows}


async def test_sigterm_lets_running_requests_finish(
    processes: Processes, database: Database, upstream: FakeUpstream
) -> None:
    upstream.latency = 1.0
    gateway = await processes.start(BATCH_MODEL_CONCURRENCY="16", **SHORT_LEASE)
    batch_id = await gateway.create(lines(60, "t"))
    await holds(lambda: upstream.in_flight == 16)
    assert await gateway.stop() == 0
    sent = len(upstream.requests)
    async with database.connection() as conn:
        states = await _states(conn)
        billed = await conn.fetchval("select count(*) from batch_attempts where cost_usd > 0")
        waiting = await conn.fetchval("select count(*) from workers where ended_at is null")
    assert states == {"completed": sent, "queued": 60 - sent}
    assert (billed, waiting) == (sent, 0)
    assert all(request.done_at is not None for request in upstream.requests)
    upstream.latency = 0.0
    gateway = await processes.start(**SHORT_LEASE)
    await gateway.ended(batch_id)
    assert await check_all_completed(database, upstream) == 0
    assert len(upstream.requests) == 60


async def test_a_second_sigterm_cuts_off_and_records(
    processes: Processes, database: Database, upstream: FakeUpstream
) -> None:
    upstream.decide = lambda _: Behaviour(do="stall")
    gateway = await processes.start(BATCH_MODEL_CONCURRENCY="4", **SHORT_LEASE)
    batch_id = await gateway.create(lines(10, "s"))
    await holds(lambda: upstream.in_flight == 4)
    gateway.terminate()

    async def rest_is_handed_back() -> bool:
        return await running_of(database, [gateway.pid]) == 4

    await until(rest_is_handed_back)
    assert await gateway.stop(within=20) == 0
    assert upstream.in_flight == 0
    async with database.connection() as conn:
        outcomes = await conn.fetch("select outcome, cost_usd, count(*) as n from batch_attempts group by 1, 2")
        states = await _states(conn)
    assert [(row["outcome"], row["cost_usd"], row["n"]) for row in outcomes] == [("retried", None, 4)]
    assert states == {"queued": 10}
    assert await books(database) == {}
    upstream.decide = None
    gateway = await processes.start(**SHORT_LEASE)
    batch = await gateway.ended(batch_id)
    assert (batch["request_counts"]["completed"], batch["cost_unknown_attempts"]) == (10, 4)


async def test_many_stops_in_good_order_lose_nothing(
    processes: Processes, database: Database, upstream: FakeUpstream
) -> None:
    """A rolling restart under load: nothing is lost, sent twice or left behind, whenever the signal comes."""
    upstream.latency = 0.01
    more = {"BATCH_MAX_ACTIVE_PER_USER": "100", **SHORT_LEASE}
    first = await processes.start(**more)
    feeder = Feeder(database, 2_000)
    for _ in range(4):
        second = await processes.start(**more)
        await feeder.until_busy(first, [first.pid], least=1)
        assert await first.stop() == 0
        first = second
    for batch_id in feeder.batches:
        assert (await first.ended(batch_id))["status"] == "completed"
    assert await check_all_completed(database, upstream) == 0
    assert len(upstream.requests) == len(feeder.batches) * 2_000


async def test_a_frozen_worker_changes_nothing_when_it_wakes(
    processes: Processes, database: Database, upstream: FakeUpstream
) -> None:
    """Its lease lapses and others take over: its late answers are not recorded, its open calls are cancelled."""
    counts: Counter[str] = Counter()
    stalls = itertools.cycle([Behaviour(latency=2.0), Behaviour(do="stall")])

    def decide(request: Received) -> Behaviour | None:
        counts[request.text] += 1
        return next(stalls) if counts[request.text] == 1 else None

    upstream.decide = decide
    frozen = await processes.start(**SHORT_LEASE)
    batch_id = await frozen.create(lines(8, "f"))
    await holds(lambda: upstream.in_flight == 8)
    frozen.pause()
    other = await processes.start(**SHORT_LEASE)
    batch = await other.ended(batch_id)
    assert batch["request_counts"]["completed"] == 8
    assert await books(database) == {}
    before = await _rows(database)
    async with database.connection() as conn:
        newest = await conn.fetchval("select max(no) from workers")
    frozen.resume()
    gone = [(await asyncio.wait_for(upstream.gone.get(), 20)).text for _ in range(4)]
    assert len(set(gone)) == 4

    living = "select exists (select from workers where pid = $1 and no > $2 and ended_at is null)"

    async def began_anew() -> bool:
        async with database.connection() as conn:
            return bool(await conn.fetchval(living, frozen.pid, newest))

    await until(began_anew)
    assert await frozen.stop() == 0
    assert await _rows(database) == before
    assert await check_all_completed(database, upstream) == 8


async def _rows(database: Database) -> list[str]:
    async with database.connection() as conn:
        return [
            row["line"]
            for table in ("batch_jobs", "batch_items", "batch_attempts", "spend_days", "batch_result_segments")
            for row in await conn.fetch(f"select t::text as line from {table} t order by 1")
        ]


async def test_a_lost_child_is_replaced(processes: Processes, database: Database, upstream: FakeUpstream) -> None:
    upstream.latency = 0.05
    parent = await processes.start("--processes", "2", **SHORT_LEASE)
    await holds(lambda: len(parent.children()) == 2)
    feeder = Feeder(database, 500)
    first, second = parent.children()
    await feeder.until_busy(parent, [first, second])
    send(first, signal.SIGKILL)
    for batch_id in feeder.batches:
        assert (await parent.ended(batch_id))["request_counts"]["completed"] == 500
    await holds(lambda: len(parent.children()) == 2 and first not in parent.children())
    assert second in parent.children()
    assert await check_all_completed(database, upstream) >= 8
    assert await parent.stop() == 0


async def test_eight_first_starts_at_once(embedded: Processes, postgres: PostgresProcesses) -> None:
    gateways = [embedded.launch() for _ in range(8)]
    for gateway in gateways:
        await gateway.ready()
    keys = [gateway.admin_key for gateway in gateways if gateway.admin_key is not None]
    assert len(keys) == 1
    for gateway in gateways:
        assert (await gateway.call("GET", "/v1/batches", key=keys[0])).status == 200
    async with await Database.connect(postgres.url) as database, database.connection() as conn:
        assert await conn.fetchval("select count(*) from accounts") == 1
        assert await conn.fetchval("select count(*) from schema_migrations") == SCHEMA_VERSION
        assert await conn.fetchval("select count(*) from workers where ended_at is null") == 8
    assert [await gateway.stop() for gateway in gateways] == [0] * 8
    assert postgres.pids() == []


async def test_a_killed_worker_is_taken_over_from_before_its_lease_ends(
    processes: Processes, database: Database, upstream: FakeUpstream
) -> None:
    """On one host the survivor sees the death itself. The lease outlasts this test, so nothing else ends it."""
    upstream.decide = lambda _: Behaviour(do="stall")
    lease = {"EBBTIDE_WORKER_LEASE_SECONDS": "600", "BATCH_MODEL_CONCURRENCY": "8"}
    victim = await processes.start(**lease)
    batch_id = await victim.create(lines(8, "k"))
    await holds(lambda: upstream.in_flight == 8)
    survivor = await processes.start(**lease)
    upstream.decide = None
    victim.kill()
    batch = await survivor.ended(batch_id)
    assert (batch["request_counts"]["completed"], batch["cost_unknown_attempts"]) == (8, 8)
    assert await check_all_completed(database, upstream) == 8
