"""Batches made through Gemini's API: all requests go to the model of the call.

Inline requests are checked one by one, and a bad one ends as a failed item while the others run; a file is validated by
a worker, and runs whole or not at all. Once made they are batches like all others, told apart by their surface.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ebbtide.accounts.store import Principal
from ebbtide.batches.checks import Rules, check_gemini, resolve_for_batch
from ebbtide.batches.idempotency import Once
from ebbtide.batches.intake import (
    Direct,
    FileSource,
    Intake,
    Wish,
    check_may_create,
    store_direct,
    store_from_file,
    stored_once,
)
from ebbtide.batches.model import GEMINI, Item, Job
from ebbtide.batches.progress import get_batch, get_batches
from ebbtide.dialects.gemini.batch import CreateGeminiBatch, read_requests, stored_line
from ebbtide.dialects.gemini.files import file_name
from ebbtide.dialects.values import ENDPOINT_FOR, Target
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files.chunks import LONGEST_LINE, ChunkPacker
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "gemini_batches.sql")
_INPUT: Final = "batch.inputConfig"


@dataclass(frozen=True, slots=True)
class GeminiJob:
    """A batch with what its own API tells of it beside."""

    job: Job
    display_name: str
    priority: int


async def create_gemini_batch(
    intake: Intake, principal: Principal, ask: tuple[Target, str], create: CreateGeminiBatch, once: Once | None
) -> Job:
    """Store a new batch and return it; `ask`: the requests' target, and the model as the call names it.

    Raises as create_batch does, and NotFound for a model that is not there.
    """
    check_may_create(principal, intake.settings)
    target, name = ask
    rules = intake.rules(principal.role, None)
    try:
        model = resolve_for_batch(rules, name, target)
    except InvalidRequest as error:
        raise (NotFound(error.message, param="model") if error.code == "model_not_found" else error) from None
    wish = Wish(None, once, name=create.display_name, priority=create.priority)
    if create.input_file_id is not None:
        file_id = create.input_file_id
        source = FileSource(GEMINI, target, file_id, f"{_INPUT}.fileName", model.id, file_name(file_id))
        return await stored_once(intake, principal, once, lambda: store_from_file(intake, principal, source, wish))

    async def store() -> Job:
        with ChunkPacker() as packer:
            checked = await asyncio.to_thread(_pack, rules, ask, create, packer)
            return await store_direct(intake, principal, checked, wish)

    return await stored_once(intake, principal, once, store)


def _pack(rules: Rules, ask: tuple[Target, str], create: CreateGeminiBatch, packer: ChunkPacker) -> Direct:
    """Check and pack every request; runs in a thread. Raises InvalidRequest for what is no request at all."""
    target, name = ask
    model = resolve_for_batch(rules, name, target).id
    items = []
    for index, request in enumerate(read_requests(create)):
        line = stored_line(request, ENDPOINT_FOR[target].url, name)
        if len(line) > LONGEST_LINE:
            raise InvalidRequest(f"{_INPUT}.requests.requests[{index}]: larger than {LONGEST_LINE >> 20} MiB")
        place = (*packer.write_line(line), len(line))
        try:
            _, most = check_gemini(rules, ask, request.request)
            items.append(Item(request.key, model, *place, most))
        except InvalidRequest as error:
            told = ("invalid_request", error.message, 400)
            items.append(Item(request.key, model, *place, None, *told))
    return Direct(target, items, packer, packer.finish(), surface=GEMINI, model=model)


async def get_gemini_batch(database: Database, principal: Principal, batch_id: str) -> GeminiJob:
    """Raises NotFound, also for a batch that was made another way."""
    job = await get_batch(database, principal, batch_id)
    if job.api_surface != GEMINI:
        raise NotFound(f"No such batch: {batch_id}")
    [told] = await with_details(database, [job])
    return told


async def list_gemini_batches(
    database: Database, principal: Principal, after: str | None, limit: int
) -> tuple[list[GeminiJob], bool]:
    """A page of the account's, newest first, and whether more follow. Raises InvalidRequest for a bad cursor."""
    async with database.connection() as conn:
        if after is not None and not await conn.fetchval(_Q["knows_gemini_batch"], principal.account_id, after):
            raise InvalidRequest("pageToken is none that a page before told", param="pageToken")
        rows = await conn.fetch(_Q["list_gemini_batches"], principal.account_id, after, limit + 1)
        ids = [row["id"] for row in rows]
        jobs = await get_batches(conn, ids[:limit], None)
    jobs.sort(key=lambda job: job.no, reverse=True)
    return await with_details(database, jobs), len(ids) > limit


async def with_details(database: Database, jobs: Sequence[Job]) -> list[GeminiJob]:
    """The batches with their names and priorities."""
    async with database.connection() as conn:
        rows = {row["no"]: row for row in await conn.fetch(_Q["read_details"], [job.no for job in jobs])}
    return [GeminiJob(job, rows[job.no]["name"] or "", rows[job.no]["priority"]) for job in jobs if job.no in rows]
