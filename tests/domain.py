"""The batch domain without a front door, for tests: accounts, models at a fake upstream, intake, workers in-process.

`World` is one small deployment on a fresh database. `books` recounts everything that is kept as a running total.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from tests.clocks import ManualClock
from tests.conftest import Server, database_at
from tests.fake_upstream import FakeUpstream
from tests.people import create_account, create_key

from ebbtide import ids
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import closing, intake_store, workers_store
from ebbtide.batches.claim_store import Candidate
from ebbtide.batches.intake import Intake, create_batch
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL, Item, Job
from ebbtide.batches.progress import get_batch
from ebbtide.batches.validation import validate_next
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, Pricing, Route
from ebbtide.catalog.source import FixedSource
from ebbtide.delivery.seal import seal_next
from ebbtide.dialects.openai.requests import CreateBatch, parse_create
from ebbtide.dialects.values import Usage
from ebbtide.dispatch.breaker import BreakerRules
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Answered, ErrorCode, Failed, FailureKind, Outcome, Timeouts
from ebbtide.dispatch.rules import Rules
from ebbtide.dispatch.send import Sender
from ebbtide.dispatch.translation import check_carried
from ebbtide.files.download import read_content
from ebbtide.files.library import get_file
from ebbtide.files.model import StoredFile
from ebbtide.files.upload import NewFile, Upload, save_upload
from ebbtide.settings.snapshot import Settings, SettingsSource
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database
from ebbtide.worker.claim import Claimer
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lanes import Lanes, Work
from ebbtide.worker.lease import Lease
from ebbtide.worker.loop import Worker
from ebbtide.worker.money import Holdings
from ebbtide.worker.pace import Pace
from ebbtide.worker.settle import Settler
from ebbtide.worker.take import Round
from ebbtide.worker.verdicts import UNWELL, FinishedItem, sign

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PRICES = Pricing(Decimal(1), Decimal(2), Decimal("0.5"), Decimal(1))
NO_CIRCUITS = Rules(BreakerRules(failures=0))  # they go by another clock than the one that tests move
TIMEOUTS = Timeouts(connect=4.0, total=4.0)  # a loaded machine may take a second for what else takes a millisecond


def request(custom_id: str, text: str = "Hello", *, model: str = "chat-1", **body: Any) -> dict[str, Any]:
    """One chat request, as an element of `requests` or a line of a file."""
    return {
        "custom_id": custom_id,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": model, "messages": [{"role": "user", "content": text}]} | body,
    }


def embedding(custom_id: str, text: str = "Hello", *, model: str = "embed-1") -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/embeddings", "body": {"model": model, "input": text}}


def jsonl(lines: Sequence[Any], end: bytes = b"\n") -> bytes:
    """A file of these lines; bytes are taken as they are."""
    return b"".join((line if isinstance(line, bytes) else msgspec.json.encode(line)) + end for line in lines)


def models_at(url: str) -> Catalog:
    """`chat-1` (alias `chatty`), `chat-2`, `embed-1`, `secret-1` for administrators, `cloud-1` with no batch route."""

    def model(name: str, kind: str = "chat", **more: Any) -> Model:
        route = Route(f"{name}-route", "openai", "upstream-model", url, deployment_type=more.pop("where", "auto"))
        return Model(name, "embedding" if kind == "embedding" else "chat", (route,), pricing=PRICES, **more)

    return Catalog.of(
        [
            model("chat-1", aliases=("chatty",)),
            model("chat-2"),
            model("embed-1", "embedding"),
            model("secret-1", min_role=Role.ADMIN),
            model("cloud-1", where="provider_api"),
        ]
    )


@dataclass
class World:
    """A deployment: `owner` may create batches, `clock` stands still until moved."""

    database: Database
    upstream: FakeUpstream
    dispatcher: Dispatcher
    owner: Principal
    clock: ManualClock
    models: FixedSource
    settings: SettingsSource = field(default_factory=lambda: SettingsSource(Settings()))

    # Setting up

    def set(self, **settings: Any) -> None:
        """Change run-time settings."""
        self.settings.swap(replace(self.settings.current, **settings))

    async def account(self, name: str, role: Role = Role.INTERNAL) -> Principal:
        return await new_account(self.database, name, role, self.clock.now())

    @property
    def intake(self) -> Intake:
        return Intake(self.database, self.models.current, self.settings.current, self.clock, check_carried)

    # Batches and files

    async def direct(self, *requests: Any, owner: Principal | None = None, **create: Any) -> Job:
        """Create a batch of direct requests."""
        raw = msgspec.json.encode({"requests": requests} | create)
        return await create_batch(
            self.intake, owner or self.owner, parse_create(raw, self.settings.current.batch_max_requests)
        )

    async def many(self, count: int, *, owner: Principal | None = None, model: str = "chat-1", text: str = "Hi") -> Job:
        return await self.direct(*(request(f"r{n}", text, model=model) for n in range(count)), owner=owner)

    async def upload(
        self, content: bytes, *, pieces: int = 1 << 16, owner: Principal | None = None, source_id: str | None = None
    ) -> StoredFile:
        """Upload a file, written `pieces` bytes at a time."""
        settings = self.settings.current
        with Upload(settings.batch_max_body_mb << 20) as upload:
            for at in range(0, len(content), pieces):
                upload.write(content[at : at + pieces])
            account_id = (owner or self.owner).account_id
            new = NewFile(account_id, "in.jsonl", self.clock.now(), source_id=source_id)
            return await save_upload(self.database, new, upload, settings)

    async def from_file(self, content: bytes | StoredFile, endpoint: str = "/v1/chat/completions") -> Job:
        """Create a batch from a file; it still has to be validated."""
        file = content if isinstance(content, StoredFile) else await self.upload(content)
        create = CreateBatch(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
        return await create_batch(self.intake, self.owner, create)

    async def validated(self, content: bytes, endpoint: str = "/v1/chat/completions") -> Job:
        job = await self.from_file(content, endpoint)
        assert await validate_next(self.intake, await self.worker_no()) == 1
        return await self.job(job)

    async def job(self, job: Job) -> Job:
        """The batch as it is now."""
        return await get_batch(self.database, self.owner, job.id)

    async def items(self, job: Job) -> list[Any]:
        return await self.fetch("select * from batch_items where batch_no = $1 order by id", job.no)

    async def states(self, job: Job) -> dict[str, str]:
        return {item["custom_id"]: item["state"] for item in await self.items(job)}

    async def attempts(self, job: Job) -> list[Any]:
        return await self.fetch(
            "select * from batch_attempts where batch_no = $1 order by item_id, claim_epoch", job.no
        )

    async def content(self, file_id: str | None, owner: Principal | None = None) -> bytes:
        """A file's bytes, whole."""
        assert file_id is not None
        file = await get_file(self.database, owner or self.owner, file_id, self.clock.now())
        return b"".join([piece async for piece in read_content(self.database, file)])

    async def fetch(self, sql: str, *values: Any) -> list[Any]:
        async with self.database.connection() as conn:
            return list(await conn.fetch(sql, *values))

    async def value(self, sql: str, *values: Any) -> Any:
        async with self.database.connection() as conn:
            return await conn.fetchval(sql, *values)

    # Workers

    async def worker_no(self, seconds: float = 600.0) -> int:
        """The number of a living worker that is only a row."""
        async with self.database.transaction() as conn:
            return await workers_store.register_worker(conn, "test", 1, "0", seconds)

    async def lapse(self, worker_no: int) -> None:
        """Let a worker's lease run out now."""
        async with self.database.transaction() as conn:
            await conn.execute("update workers set lease_until = now() where no = $1", worker_no)

    async def take_over(self) -> int:
        """Do what the duty that takes over from lapsed workers does once."""
        return await closing.take_over(self.database, self.clock.now(), random.Random(1))

    async def hands(self) -> Hands:
        """A worker to be worked by hand."""
        return Hands(self, await self.worker_no())

    def lease(self, seconds: float = 60.0, beat: float = 10.0) -> Lease:
        return Lease(self.database, seconds=seconds, beat=beat)

    def context(self) -> WorkerContext:
        return WorkerContext(self.database, self.models, self.settings, self.dispatcher, self.clock)

    async def move(self, **delta: float) -> None:
        """Let time pass, and wake the workers, which would else find out at their next poll."""
        self.clock.move(**delta)
        async with self.database.transaction() as conn:
            await notify(conn, WORK_CHANNEL)
            await notify(conn, DUTY_CHANNEL)

    @asynccontextmanager
    async def worker(self, *, grace_seconds: float = 5.0, lease: Lease | None = None) -> AsyncIterator[Worker]:
        """A worker that runs for the block and then stops in order."""
        worker = Worker(self.context(), lease or self.lease(), grace_seconds=grace_seconds)
        stop = asyncio.Event()
        task = asyncio.create_task(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await task

    async def until(self, holds: Callable[[], Awaitable[Any]], *, within: float = 15.0) -> Any:
        """Ask until the answer is true, and return it; fails when a worker's books are wrong on the way."""
        async with asyncio.timeout(within):
            while not (answer := await holds()):  # noqa: ASYNC110  looks at a database
                await asyncio.sleep(0.01)
            return answer

    async def until_status(self, job: Job, *statuses: str, within: float = 15.0) -> Job:
        async def reached() -> Job | None:
            now = await self.job(job)
            return now if now.status in statuses else None

        found: Job = await self.until(reached, within=within)
        return found

    async def until_ended(self, job: Job, within: float = 15.0) -> Job:
        return await self.until_status(job, "completed", "failed", "expired", "cancelled", within=within)

    async def close(self) -> None:
        """Do what the closing duty does until nothing is left of it."""
        while await closing.close_batches(self.database, self.clock.now()):
            pass

    async def seal(self) -> None:
        """Seal whatever waits for it."""
        worker_no = await self.worker_no()
        while await seal_next(self.database, worker_no, self.clock):
            pass


class Hands:
    """A worker worked by hand: claims and settles when told, with the real claimer, lanes and settler.

    `running` holds what was started and not settled; whatever waits behind it in the lanes is claimed too.
    """

    def __init__(self, world: World, worker_no: int) -> None:
        self.worker_no = worker_no
        self.running: list[Work] = []
        self.lanes = Lanes(self.running.append)
        context, pace, holdings = world.context(), Pace(), Holdings()
        self.claimer = Claimer(context, self.lanes, pace, holdings)
        self.settler = Settler(context, pace, holdings, random.Random(0))
        self.settler.worker_no = worker_no
        self._world = world

    async def claim(self, model: str = "chat-1") -> list[Work]:
        """One claim round; returns what was started by it."""
        before = len(self.running)
        self.claimer.look_again()
        settings, now = self._world.settings.current, self._world.clock.now()
        await self.claimer.claim(Round(model, self.worker_no, settings, now))
        await self._hand_back(self.lanes.take_stranded())
        return self.running[before:]

    async def settle(self, *outcomes: tuple[Work, Outcome | None]) -> None:
        """Record outcomes of running works, all in one settle."""
        done = []
        for work, outcome in outcomes:
            self.running.remove(work)
            model = self._world.models.current.resolve(work.model)
            done.append(FinishedItem(work, outcome, model, ids.request_id(), seconds=1.0))
            self.settler.put(done[-1])
        await self.settler.flush()
        for one in done:
            if sign(one)[0] in UNWELL:
                self.lanes.freed(one.work)
            elif (successor := self.lanes.finished(one.work)) is not None:
                self.running.append(successor)

    async def hand_back_waiting(self) -> None:
        """Give back what was claimed and not started."""
        await self._hand_back(self.lanes.take_waiting(lambda _: True))

    async def _hand_back(self, works: Sequence[Work]) -> None:
        for work in works:
            self.settler.put(FinishedItem(work, None, None, ""))
        await self.settler.flush()


def answered(text: str = "Fine", usage: Usage | None = Usage(10, 4, 5, 1)) -> Answered:  # noqa: B008  frozen
    return Answered(msgspec.json.encode({"text": text}), usage, "a-route")


def failed(status: int = 400, kind: FailureKind = "status", **more: Any) -> Failed:
    code: ErrorCode = "upstream_error" if status >= 500 else "invalid_request"
    return Failed(kind, status, code, f"told {status}", sent=True, route="a-route", **more)


@pytest.fixture(scope="session")
async def shared_database(server: Server, template: str) -> AsyncIterator[Database]:
    """One migrated database for many tests, since making one costs more than most of them."""
    async with server.database(template) as name:
        listen_url = database_at(server.listen_url, name)
        async with await Database.connect(database_at(server.url, name), listen_url=listen_url) as database:
            yield database


@pytest.fixture
async def world(shared_database: Database) -> AsyncIterator[World]:
    """A deployment in a database that is empty again."""
    async with shared_database.connection() as conn:
        await conn.execute(_EMPTY)
    async with make_world(shared_database) as made:
        yield made


@pytest.fixture
async def own_world(database: Database) -> AsyncIterator[World]:
    """A deployment in a database of its own, for a test that leaves much behind or moves the ids."""
    async with make_world(database) as made:
        yield made


_EMPTY = """do $$ declare name text; begin
    for name in select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations'
                order by tablename = 'accounts' loop  -- the others refer to it
        execute format('delete from %I', name);
    end loop; end $$"""


@asynccontextmanager
async def make_world(database: Database) -> AsyncIterator[World]:
    async with FakeUpstream() as upstream, Sender() as sender:
        dispatcher = Dispatcher(sender, timeouts=TIMEOUTS, rules=lambda: NO_CIRCUITS)
        owner = await new_account(database, "owner", Role.INTERNAL, NOON)
        models = FixedSource(models_at(upstream.url))
        yield World(database, upstream, dispatcher, owner, ManualClock(NOON), models)


async def new_account(database: Database, name: str, role: Role, now: datetime) -> Principal:
    account = await create_account(database, name, role, now)
    key, _ = await create_key(database, account.id, now=now)
    return Principal(account.id, key.id, role)


async def insert_open(
    conn: Connection, owner: Principal, counts: dict[str, int], *, now: datetime = NOON, **columns: Any
) -> int:
    """An open batch straight into the tables: `counts` items by model, whose lines are nowhere. Returns its number."""
    new = intake_store.NewBatch(
        **{
            "id": ids.batch_id(),
            "account_id": owner.account_id,
            "key_id": owner.key_id,
            "api_surface": "openai_inline",
            "target": "chat",
            "input_id": ids.file_id(),
            "metadata": None,
            "completion_window": "24h",
            "retention_days": 7,
            "phase": "open",
            "created_at": now,
            "expires_at": None,
            "total": sum(counts.values()),
        }
        | columns
    )
    batch_no = await intake_store.insert_batch(conn, new)
    await intake_store.ensure_user_state(conn, owner.account_id, now)
    items = [Item(f"{model}-{n}", model, 0, 0, 2, None) for model, count in counts.items() for n in range(count)]
    await intake_store.add_items(conn, batch_no, items, now)
    return batch_no


def candidate(batch_no: int, queued: int, *, account: str = "a", expires_at: datetime | None = None) -> Candidate:
    return Candidate(batch_no, account, "key", expires_at, queued, Role.INTERNAL, True, False, False)


# Recounts: each finds the rows whose running totals are not what counting gives; deleted batches may be half removed.
_BOOKS = {
    "counters": """
        select j.no, j.phase, j.completed, j.failed, j.cancelled, j.expired, c.* from batch_jobs j cross join lateral (
            select count(*) filter (where state = 'completed') as n_completed,
                   count(*) filter (where state = 'failed') as n_failed,
                   count(*) filter (where state = 'cancelled') as n_cancelled,
                   count(*) filter (where state = 'expired') as n_expired, count(*) as n_total,
                   coalesce(sum(answer_length), 0) as n_bytes
            from batch_items i where i.batch_no = j.no) c
        where j.deleted_at is null
          and (j.completed, j.failed, j.cancelled, j.expired, j.total::bigint, j.result_bytes)
              is distinct from (c.n_completed, c.n_failed, c.n_cancelled, c.n_expired, c.n_total, c.n_bytes)""",
    "bills": """
        select j.no, j.input_tokens, j.cost_usd, j.cost_unknown_attempts, a.* from batch_jobs j cross join lateral (
            select coalesce(sum(input_tokens), 0) as n_input, coalesce(sum(output_tokens), 0) as n_output,
                   coalesce(sum(cached_tokens), 0) as n_cached, coalesce(sum(reasoning_tokens), 0) as n_reasoning,
                   coalesce(sum(cost_usd), 0) as n_cost, count(*) filter (where cost_usd is null) as n_unknown
            from batch_attempts a where a.batch_no = j.no) a
        where j.deleted_at is null
          and (j.input_tokens, j.output_tokens, j.cached_tokens, j.reasoning_tokens, j.cost_usd,
               j.cost_unknown_attempts)
              is distinct from (a.n_input, a.n_output, a.n_cached, a.n_reasoning, a.n_cost, a.n_unknown)""",
    "queues": """
        select coalesce(q.batch_no, i.batch_no), q.queued, q.running, q.next_ready_at, i.*
        from batch_queues q full join (
            select batch_no, model, count(*) filter (where state = 'queued') as n_queued,
                   count(*) filter (where state = 'running') as n_running,
                   min(ready_at) filter (where state = 'queued') as first_ready
            from batch_items group by 1, 2) i on i.batch_no = q.batch_no and i.model = q.model
        join batch_jobs j on j.no = coalesce(q.batch_no, i.batch_no)
        where j.deleted_at is null
          and ((j.phase = 'open') <> (q.batch_no is not null)
               or (j.phase <> 'open' and n_queued + n_running > 0)
               or (q.queued, q.running) is distinct from (coalesce(n_queued, 0), coalesce(n_running, 0))
                  and q.batch_no is not null
               or q.next_ready_at > i.first_ready)""",
    "orphans": """
        select i.batch_no, i.id, i.worker_no from batch_items i left join workers w on w.no = i.worker_no
        where i.state = 'running' and (w.no is null or w.ended_at is not null)""",
    "log": """
        select j.no, a.*, l.* from batch_jobs j
        cross join lateral (
            select count(*) as tries, sum(cost_usd) as cost, sum(input_tokens) as input, sum(cached_tokens) as cached,
                   sum(output_tokens) as output, sum(reasoning_tokens) as reasoning
            from batch_attempts where batch_no = j.no) a
        cross join lateral (
            select count(*) as n_logged, sum(cost_usd) as n_cost, sum(input_tokens) as n_input,
                   sum(cached_tokens) as n_cached, sum(output_tokens) as n_output, sum(reasoning_tokens) as n_reasoning
            from api_logs where batch_job_id = j.id and source = 'batch') l
        where j.deleted_at is null
          and (tries, cost, input, cached, output, reasoning)
              is distinct from (n_logged, n_cost, n_input, n_cached, n_output, n_reasoning)""",
    "spend": """
        select s.*, l.* from (
            select account_id, key_id, sum(cost_usd) as cost, sum(requests) as requests,
                   sum(input_tokens) as input, sum(output_tokens) as output
            from spend_days where source = 'batch' group by 1, 2) s
        full join (
            select account_id, key_id, sum(cost_usd) as cost, count(*) as requests,
                   sum(input_tokens) as input, sum(output_tokens) as output
            from api_logs where source = 'batch' and input_tokens is not null and cost_usd is not null
            group by 1, 2) l using (account_id, key_id)
        where (s.cost, s.requests, s.input, s.output) is distinct from (l.cost, l.requests, l.input, l.output)""",
    "reservations": """
        select r.* from batch_reservations r join workers w on w.no = r.worker_no
        where w.ended_at is null and w.lease_until > now() and (r.cost_usd < 0 or r.cost_usd > 0 and not exists (
            select from batch_items i join batch_jobs j on j.no = i.batch_no
            where i.worker_no = r.worker_no and i.state = 'running' and j.key_id = r.key_id))""",
    "states": """
        select key_id, blocked_reason, blocked_until from batch_key_state s
        where not exists (select from api_keys k where k.id = s.key_id)
        union all
        select account_id, blocked_reason, blocked_until from batch_user_state
        where (blocked_reason is null) <> (blocked_until is null)
        union all
        select model, rest_reason, rest_until from batch_model_state
        where (rest_until is null) <> (rest_reason is null)""",
    "answers": """
        select i.batch_no, i.id from batch_items i left join batch_result_segments s
            on s.batch_no = i.batch_no and s.id = i.segment
        join batch_jobs j on j.no = i.batch_no
        where j.deleted_at is null and i.segment is not null and s.id is null""",
}


async def books(database: Database) -> dict[str, list[dict[str, Any]]]:
    """What does not add up, by kind of account; empty when everything does. Read from one moment."""
    wrong: dict[str, list[dict[str, Any]]] = {}
    async with database.transaction() as conn:
        await conn.execute("set transaction isolation level repeatable read")
        for kind, sql in _BOOKS.items():
            if rows := await conn.fetch(sql):
                wrong[kind] = [dict(row) for row in rows]
    return wrong
