"""A new batch of what did not succeed in an ended one: its request lines are read again and checked by today's rules.

The new batch is one of direct requests, whatever the old one was, and is held to every limit of a create.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec

from ebbtide.accounts.store import Principal
from ebbtide.batches.checks import ROUTE_UNAVAILABLE, RequestChecker
from ebbtide.batches.idempotency import Once
from ebbtide.batches.intake import Direct, Intake, Wish, check_may_create, store_direct, stored_once
from ebbtide.batches.model import Item, Job
from ebbtide.batches.progress import get_batch
from ebbtide.dialects.lines import common_line
from ebbtide.dialects.openai.requests import MAX_METADATA_PAIRS, check_count
from ebbtide.dialects.values import Target
from ebbtide.errors import Conflict, InvalidRequest, NotFound, TooLarge
from ebbtide.files.chunks import ChunkPacker
from ebbtide.files.download import read_chunk
from ebbtide.files.leases import reading
from ebbtide.storage.pool import Database
from ebbtide.storage.queries import load_queries

_Q = load_queries("ebbtide.batches", "resubmit.sql")
RETRY_OF: Final = "retry_of"
_PAGE_ITEMS: Final = 2_000
_MIB: Final = 1 << 20


async def retry_batch(intake: Intake, principal: Principal, batch_id: str, once: Once | None = None) -> Job:
    """Store a new batch of the account's ended batch's failed, expired and cancelled requests, under the caller's key.

    Raises NotFound, also for another account's; Conflict while it has not ended; InvalidRequest when every request
    succeeded or one would be refused today, naming it; and what create_batch raises.
    """
    old = await get_batch(intake.database, principal, batch_id)
    if old.account_id != principal.account_id:
        raise NotFound(f"No such batch: {batch_id}")
    if not old.has_ended:
        raise Conflict(f"The batch has not ended; its status is {old.status}", code="batch_not_ended")
    check_may_create(principal, intake.settings)
    if not _unsuccessful_count(old):
        raise InvalidRequest("The batch has no failed, expired or cancelled requests: there is nothing to retry")
    check_count(_unsuccessful_count(old), intake.settings.batch_max_requests)
    wish = Wish(_metadata(old), once, version=old.anthropic_version)
    async with reading(intake.database, seconds=intake.settings.request_timeout_seconds, batch_no=old.no):
        return await stored_once(intake, principal, once, lambda: _store_again(intake, principal, old, wish))


@dataclass(frozen=True, slots=True)
class _Packing:
    """What lines go through on their way."""

    checker: RequestChecker
    packer: ChunkPacker
    target: Target


async def _store_again(intake: Intake, principal: Principal, old: Job, wish: Wish) -> Job:
    checker = RequestChecker(intake.rules(principal.role, old.anthropic_version))
    items: list[Item] = []
    with ChunkPacker() as packer:
        packing = _Packing(checker, packer, old.target)
        async for rows in list_unsuccessful(intake.database, old):
            for chunk, group in groupby(rows, key=itemgetter("chunk")):
                raw = await read_chunk(intake.database, old.input_id, chunk)
                items += await asyncio.to_thread(_pack_lines, packing, list(group), raw)
            _check_size(packer.size - len(items), intake.settings.batch_max_body_mb)
        if len(items) != _unsuccessful_count(old):
            raise NotFound(f"No such batch: {old.id}")  # it was deleted, and is being removed
        digest = await asyncio.to_thread(packer.finish)
        return await store_direct(intake, principal, Direct(checker.target, items, packer, digest), wish)


def _unsuccessful_count(old: Job) -> int:
    return old.failed + old.expired + old.cancelled


async def list_unsuccessful(database: Database, job: Job) -> AsyncIterator[Sequence[Any]]:
    """The places of an ended batch's lines that did not succeed, in the order of submission, some at a time."""
    after = 0
    while True:
        async with database.connection() as conn:
            rows = await conn.fetch(_Q["list_unsuccessful"], job.no, after, _PAGE_ITEMS)
        if not rows:
            return
        yield rows
        after = rows[-1]["id"]


def _pack_lines(packing: _Packing, rows: Sequence[Any], raw: bytes) -> list[Item]:
    """Check and pack those lines of one chunk; work for a thread. The first one that is refused raises, named."""
    whole = memoryview(raw)
    items = []
    for row in rows:
        line = whole[row["line_offset"] : row["line_offset"] + row["line_length"]]
        line = common_line(line, packing.target, row["model"])
        try:
            checked = packing.checker.check(line)
        except InvalidRequest as error:
            raise _named(error, row["custom_id"]) from None
        chunk, offset = packing.packer.write_line(line)
        items.append(Item(checked.custom_id, checked.model, chunk, offset, len(line), checked.max_tokens))
    return items


def _named(error: InvalidRequest, custom_id: str) -> InvalidRequest:
    code = error.code if error.code == ROUTE_UNAVAILABLE else None
    return InvalidRequest(f"The request with custom_id {custom_id!r}: {error.message}", code=code, param=error.param)


def _check_size(size: int, limit_mb: int) -> None:
    if size > limit_mb * _MIB:
        raise TooLarge(f"The requests to retry are larger than {limit_mb} MiB together; submit them in smaller batches")


def _metadata(old: Job) -> str:
    """The old batch's, and which batch that was where there is room for it."""
    metadata = {} if old.metadata is None else msgspec.json.decode(old.metadata, type=dict[str, str])
    if RETRY_OF in metadata or len(metadata) < MAX_METADATA_PAIRS:
        metadata[RETRY_OF] = old.id
    return msgspec.json.encode(metadata).decode()
