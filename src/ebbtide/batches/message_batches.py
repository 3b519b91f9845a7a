"""Batches made through Anthropic's own Message Batches: each request is checked by itself, and a bad one ends as a
failed item while the others run. Once made they are batches like all others, told apart by their surface.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches.checks import Rules, resolve_for_batch
from ebbtide.batches.idempotency import Once
from ebbtide.batches.intake import (
    Direct,
    Intake,
    Wish,
    check_may_create,
    check_version,
    store_direct,
    stored_once,
)
from ebbtide.batches.model import MESSAGE_BATCHES, Item, Job
from ebbtide.batches.progress import get_batch, get_batches
from ebbtide.dialects.anthropic.batch import BatchRequest, CreateMessageBatch, read_requests, stored_line
from ebbtide.dialects.openai.faults import at_index
from ebbtide.dialects.targets import CALLERS
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files.chunks import LONGEST_LINE, ChunkPacker
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "message_batches.sql")
_UNNAMED: Final = "-"  # the model of a request that names none


async def create_message_batch(
    intake: Intake, principal: Principal, create: CreateMessageBatch, once: Once | None, version: str | None
) -> Job:
    """Store a new batch and return it; raises as create_batch does, for what concerns the call as a whole."""
    check_may_create(principal, intake.settings)
    check_version("messages", version, intake.settings)
    wish = Wish(None, once, version=version)

    async def store() -> Job:
        with ChunkPacker() as packer:
            checked = await asyncio.to_thread(_pack, intake, (principal.role, version), create, packer)
            return await store_direct(intake, principal, checked, wish)

    return await stored_once(intake, principal, once, store)


def _pack(intake: Intake, terms: tuple[Role, str | None], create: CreateMessageBatch, packer: ChunkPacker) -> Direct:
    """Check and pack every request; runs in a thread. Raises InvalidRequest only for one that is too large to store."""
    rules = intake.rules(*terms)
    items = []
    for index, request in enumerate(read_requests(create)):
        line = stored_line(request)
        if len(line) > LONGEST_LINE:
            raise at_index(InvalidRequest(f"larger than {LONGEST_LINE >> 20} MiB"), index)
        chunk, offset = packer.write_line(line)
        try:
            model, max_tokens = _checked(rules, request)
            items.append(Item(request.custom_id, model, chunk, offset, len(line), max_tokens))
        except InvalidRequest as error:
            code, status = ("model_not_found", 404) if error.code == "model_not_found" else ("invalid_request", 400)
            place = (_named(request), chunk, offset, len(line), None)
            items.append(
                Item(request.custom_id, *place, error_code=code, error_message=error.message, error_status=status)
            )
    return Direct("messages", items, packer, packer.finish(), surface=MESSAGE_BATCHES)


def _checked(rules: Rules, request: BatchRequest) -> tuple[str, int | None]:
    """The model that a request may use, and the most it may write. Raises InvalidRequest."""
    body = CALLERS["messages"].check_batch_body(request.params, rules.terms)
    model = resolve_for_batch(rules, body.model, "messages")
    rules.carries(model, "messages", request.params, rules.terms)
    return model.id, body.max_tokens


def _named(request: BatchRequest) -> str:
    name = request.params.get("model")
    return name[:256].replace("\0", "") or _UNNAMED if isinstance(name, str) else _UNNAMED


async def get_message_batch(database: Database, principal: Principal, batch_id: str) -> Job:
    """Raises NotFound, also for a batch that was made another way."""
    job = await get_batch(database, principal, batch_id)
    if job.api_surface != MESSAGE_BATCHES:
        raise NotFound(f"No such batch: {batch_id}")
    return job


async def list_message_batches(
    database: Database, principal: Principal, after: str | None, before: str | None, limit: int
) -> tuple[list[Job], bool]:
    """A page of the account's, newest first: those after one, or before one, and whether more lie that way.

    Raises InvalidRequest for a cursor that is none of them.
    """
    cursor = after or before
    async with database.connection() as conn:
        known = cursor is None or await conn.fetchval(_Q["knows_message_batch"], principal.account_id, cursor)
        if not known:
            name = "after_id" if after else "before_id"
            raise InvalidRequest(f"{name} is not the id of one of your message batches", param=name)
        query = "list_newer" if before else "list_older"
        ids = [row["id"] for row in await conn.fetch(_Q[query], principal.account_id, cursor, limit + 1)]
        rows = {job.id: job for job in await get_batches(conn, ids[:limit], None)}
    jobs = [rows[batch_id] for batch_id in ids[:limit] if batch_id in rows]
    return (jobs[::-1] if before else jobs), len(ids) > limit
