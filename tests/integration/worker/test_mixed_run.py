"""Twenty batches of five accounts on three models while one request in ten fails, in every way there is.

The figures of the batch object, the attempts, the request log and the spend table agree to the last picodollar, with
each other and with what the upstream did.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest
from tests.domain import World, books, embedding, jsonl, request
from tests.fake_upstream import Behaviour, Received, closed_port

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.api.openai.render import batch_object
from ebbtide.batches.intake import create_batch
from ebbtide.batches.model import Job
from ebbtide.catalog.catalog import Catalog
from ebbtide.catalog.model import Model, ModelType, Pricing, Route
from ebbtide.delivery.export import export_results
from ebbtide.dialects.openai.requests import CreateBatch
from ebbtide.dispatch import standin
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.outcome import Timeouts
from ebbtide.dispatch.send import Sender
from ebbtide.records.log_bars import WINDOWS, Which, read_windows
from ebbtide.records.log_days import fold_counts
from ebbtide.records.log_read import Figures

pytestmark = pytest.mark.timeout(240)

WAYS: Final = (
    *(Behaviour(do) for do in ("reset", "close", "half", "half-close", "stall", "stall-body", "drip")),
    *(Behaviour(status=status) for status in (400, 401, 404, 408, 422, 425, 429, 500, 502, 503, 504)),
    *(Behaviour(do) for do in ("error200", "html", "bad-utf8", "truncated", "nan", "array", "empty")),
    *(Behaviour(do) for do in ("huge", "huge-chunked", "redirect", "queued", "gzip", "pretty")),
    *(Behaviour(status=503, retry_after=text) for text in ("7", "0", "-1", "NaN", "1e9", "soon")),
    Behaviour("queued", retry_after="40"),
    Behaviour(usage=False),
)
# What tells its usage, so that the bill is known; of an embedding two of the faults do not show.
TELLS: Final = frozenset({"answer", "drip", "pretty", "bad-utf8", "nan"})
SIZES: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)

MODELS: Final = {
    "small": (Pricing(Decimal("0.15"), Decimal("0.6"), Decimal("0.075"), Decimal("0.15")), Decimal(1)),
    "cheap": (Pricing(Decimal("3.1"), Decimal("12.7"), Decimal("0.31"), Decimal("3.1")), Decimal("0.5")),
    "embed": (Pricing(Decimal("0.013"), Decimal(0), Decimal("0.013"), Decimal("0.013")), Decimal(1)),
}


def catalog(url: str, **elsewhere: tuple[str, str]) -> Catalog:
    """The three models at `url`; those in `elsewhere` have a route of that name at that URL instead."""
    models = []
    for name, (pricing, factor) in MODELS.items():
        route_id, at = elsewhere.get(name, (f"{name}-route", url))
        route = Route(route_id, "openai", "upstream-model", at)
        kind: ModelType = "embedding" if name == "embed" else "chat"
        models.append(Model(name, kind, (route,), pricing=pricing, batch_price_factor=factor))
    return Catalog.of(models)


def bill(model: str, usage: tuple[int, int, int]) -> Decimal:
    """What (input, cached, output) tokens cost, worked out here once more."""
    pricing, factor = MODELS[model]
    given, cached, made = usage
    return ((given - cached) * pricing.input + cached * pricing.cached_input + made * pricing.output) * factor / 10**6


@dataclass
class Faults:
    """What the upstream did, request by request: every tenth one is the next way to fail."""

    ways: Iterator[Behaviour] = field(default_factory=lambda: itertools.cycle(WAYS))
    done: list[tuple[Received, Behaviour]] = field(default_factory=list)

    def decide(self, received: Received) -> Behaviour:
        cached = 0 if received.path.endswith("/embeddings") else len(received.text) % 3
        behaviour = next(self.ways) if len(self.done) % 10 == 9 else Behaviour(cached=cached)
        self.done.append((received, behaviour))
        return behaviour

    def charged(self) -> dict[str, tuple[int, int, int, int]]:
        """By model: how many answers told what they used, and the sums of their input, cached and output tokens."""
        sums: dict[str, tuple[int, int, int, int]] = dict.fromkeys(MODELS, (0, 0, 0, 0))
        for received, behaviour in self.done:
            if behaviour.do in TELLS and behaviour.status == 200 and behaviour.usage and received.done_at is not None:
                model = received.text.split()[0]
                answer = standin.answer("embeddings" if model == "embed" else "chat", received.body, "m")
                usage = msgspec.json.decode(answer)["usage"]
                count, given, cached, made = sums[model]
                given += usage["prompt_tokens"]
                sums[model] = (count + 1, given, cached + behaviour.cached, made + usage.get("completion_tokens", 0))
        return sums


async def submit(world: World, owners: list[Principal]) -> list[Job]:
    """Twenty batches, every other one from a file; a direct one mixes its two chat models."""
    jobs = []
    for n, size in enumerate(SIZES + SIZES[::-1]):
        owner = owners[n % len(owners)]
        name = ("small", "cheap", "embed")[n % 3]
        make = embedding if name == "embed" else request
        names = ["small", "cheap"] if n % 2 and name != "embed" else [name]
        lines = [
            make(f"b{n}-r{m}", f"{model} {n} {m} " + "word " * (m % 7), model=model)
            for m, model in zip(range(size), itertools.cycle(names), strict=False)
        ]
        if n % 2:
            jobs.append(await world.direct(*lines, owner=owner))
            continue
        file = await world.upload(jsonl(lines), owner=owner)
        endpoint = "/v1/embeddings" if name == "embed" else "/v1/chat/completions"
        create = CreateBatch(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
        jobs.append(await create_batch(world.intake, owner, create))
    return jobs


@contextmanager
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: the kernel answers no further attempt."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])


async def let_time_pass(world: World) -> None:
    """Whenever nothing runs, go on to when something may: retries wait for seconds, models rest for minutes."""
    while True:
        await asyncio.sleep(0.05)
        if not await world.value("select exists (select from batch_items where state = 'running')"):
            await world.move(seconds=10)


async def send_elsewhere(world: World, model: str, route_id: str, port: int) -> None:
    """Point a model's route at a port that takes nothing, until some requests have met with that."""
    world.models.current = catalog(world.upstream.url, **{model: (route_id, f"http://127.0.0.1:{port}/v1")})

    async def met() -> bool:
        return int(await world.value("select count(*) from batch_attempts where route = $1", route_id)) > 0

    await world.until(met, within=60)
    world.models.current = catalog(world.upstream.url)


async def run_all(world: World, jobs: list[Job]) -> list[Job]:
    """Two workers, one of which is replaced in the middle, while one model after the other cannot be reached."""
    async with AsyncExitStack() as stack:
        passing = asyncio.create_task(let_time_pass(world))
        stack.callback(passing.cancel)
        await stack.enter_async_context(world.worker())
        async with world.worker():
            await send_elsewhere(world, "small", "refused", closed_port())
            with full_port() as port:
                await send_elsewhere(world, "cheap", "unreachable", port)
        async with world.worker():
            for job in jobs:
                await world.until_ended(job, within=120)
    return [await world.job(job) for job in jobs]


@pytest.fixture
async def mixed(own_world: World) -> AsyncIterator[World]:
    world = replace(own_world, owner=await own_world.account("admin", Role.ADMIN))  # who may look at every batch
    world.set(batch_model_concurrency=16, batch_max_result_kb=256)
    world.models.current = catalog(world.upstream.url)
    async with Sender() as sender:
        yield replace(world, dispatcher=Dispatcher(sender, timeouts=Timeouts(connect=0.5, total=4.0)))


async def test_every_figure_agrees_after_a_run_with_every_fault(mixed: World) -> None:
    faults = Faults()
    mixed.upstream.decide = faults.decide
    owners = [await mixed.account(f"account-{n}") for n in range(5)]
    await mixed.fetch("update accounts set daily_quota_usd = 1000")  # so that running requests are counted, too
    jobs = await run_all(mixed, await submit(mixed, owners))

    assert {behaviour for _, behaviour in faults.done} >= set(WAYS)
    assert {row["outcome"] for row in await mixed.fetch("select distinct outcome from batch_attempts")} == {
        *("completed", "failed", "retried", "queued")
    }
    assert sum(job.total for job in jobs) == 2 * sum(SIZES)
    await nothing_is_open(mixed)
    for job in jobs:
        await outcomes_agree(mixed, job)
        await bills_agree(mixed, job)
    for owner in owners:
        await spend_agrees(mixed, owner, [job for job in jobs if job.account_id == owner.account_id])
    await bars_agree(mixed, jobs)
    await upstream_agrees(mixed, faults)
    assert await books(mixed.database) == {}


async def nothing_is_open(world: World) -> None:
    assert await world.value("select count(*) from batch_jobs where phase <> 'sealed'") == 0
    assert await world.value("select count(*) from batch_items where state in ('queued', 'running')") == 0
    for table in ("batch_queues", "batch_slots"):
        assert await world.value(f"select count(*) from {table}") == 0
    assert await world.value("select coalesce(sum(cost_usd), 0) from batch_reservations") == 0


async def outcomes_agree(world: World, job: Job) -> None:
    """The batch object, its items, its exported results and its files count the same, each request once."""
    assert (job.status, job.completed + job.failed) == ("completed", job.total)
    counts = Counter((await world.states(job)).values())
    assert (counts["completed"], counts["failed"]) == (job.completed, job.failed)
    exported = b"".join([part async for part in export_results(world.database, job, 60)])
    told = [msgspec.json.decode(line) for line in exported.splitlines()]
    assert [line["custom_id"] for line in told] == [item["custom_id"] for item in await world.items(job)]
    if job.input_file_id is not None:
        owner = Principal(job.account_id, job.key_id, Role.INTERNAL)
        files = [await lines_of(world, file_id, owner) for file_id in (job.output_id, job.error_id)]
        assert [len(lines) for lines in files] == [job.completed, job.failed]
        assert sorted(line["custom_id"] for lines in files for line in lines) == sorted(await world.states(job))


async def lines_of(world: World, file_id: str | None, owner: Principal) -> list[Any]:
    content = b"" if file_id is None else await world.content(file_id, owner)
    return [msgspec.json.decode(line) for line in content.splitlines()]


_SUMS = """select coalesce(sum(input_tokens), 0) as input, coalesce(sum(cached_tokens), 0) as cached,
                  coalesce(sum(output_tokens), 0) as output, coalesce(sum(reasoning_tokens), 0) as reasoning,
                  coalesce(sum(cost_usd), 0) as cost, count(*) filter (where cost_usd is null) as unknown,
                  count(*) as tries"""


async def bills_agree(world: World, job: Job) -> None:
    """The batch object, its attempts and its rows of the request log."""
    (attempts,) = await world.fetch(f"{_SUMS} from batch_attempts where batch_no = $1", job.no)
    (logged,) = await world.fetch(f"{_SUMS} from api_logs where batch_job_id = $1 and source = 'batch'", job.id)
    assert tuple(logged) == tuple(attempts)
    kept = (job.input_tokens, job.cached_tokens, job.output_tokens, job.reasoning_tokens)
    assert tuple(attempts)[:6] == (*kept, job.cost_usd, job.cost_unknown_attempts)
    shown = batch_object(job)
    assert (shown.usage.input_tokens, shown.usage.input_tokens_details.cached_tokens) == kept[:2]
    assert (shown.usage.output_tokens, shown.usage.output_tokens_details.reasoning_tokens) == kept[2:]
    assert (shown.cost_usd, shown.cost_unknown_attempts) == (float(job.cost_usd), job.cost_unknown_attempts)


async def spend_agrees(world: World, owner: Principal, jobs: list[Job]) -> None:
    """What an account was charged is the sum of its known bills."""
    (spent,) = await world.fetch(
        """select sum(requests) as requests, sum(input_tokens) as input, sum(output_tokens) as output,
                  sum(cost_usd) as cost from spend_days
           where account_id = $1 and key_id = $2 and source = 'batch'""",
        *(owner.account_id, owner.key_id),
    )
    known = await world.value(
        "select count(*) from batch_attempts where batch_no = any($1) and input_tokens is not null",
        [job.no for job in jobs],
    )
    assert tuple(spent) == (
        known,
        sum(job.input_tokens for job in jobs),
        sum(job.output_tokens for job in jobs),
        sum(job.cost_usd for job in jobs),
    )


async def bars_agree(world: World, jobs: list[Job]) -> None:
    """The request log's figures are the sums of its rows, folded or not, and so of the batch objects."""
    while True:
        now = world.clock.now()
        [(_, bars)] = await read_windows(world.database, [WINDOWS[-1]], now, Which())
        batch = sum((bar.batch for bar in bars), start=Figures())
        (logged,) = await world.fetch(f"{_SUMS}, count(*) filter (where error_code is not null) from api_logs")
        sums = (batch.input_tokens, batch.cached_tokens, batch.output_tokens, batch.reasoning_tokens, batch.cost_usd)
        assert (*sums, batch.cost_unknown, batch.requests, batch.errors) == tuple(logged)
        assert batch.cost_usd == sum(job.cost_usd for job in jobs)
        if not await fold_counts(world.database, now + timedelta(days=1)):
            return


async def upstream_agrees(world: World, faults: Faults) -> None:
    """What the upstream gave answers for is what was charged, at the models' prices worked out anew."""
    for model, (answers, *usage) in faults.charged().items():
        (row,) = await world.fetch(f"{_SUMS} from batch_attempts where model = $1 and input_tokens is not null", model)
        assert (row["tries"], row["input"], row["cached"], row["output"]) == (answers, *usage), model
        assert row["cost"] == bill(model, (row["input"], row["cached"], row["output"])), model
    sent = await world.value("select count(*) from batch_attempts where route not in ('refused', 'unreachable')")
    assert sent == len(faults.done)
