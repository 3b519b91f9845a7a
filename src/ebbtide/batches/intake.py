"""Creating a batch: everything is checked, then everything is stored in one transaction, and nothing runs in the call.

Direct requests are checked whole before the answer; a file is only looked up, and validated by a worker afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ebbtide import ids
from ebbtide.accounts.quotas import check_money_left
from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.batches import intake_store as store
from ebbtide.batches.checks import ROUTE_UNAVAILABLE, RequestChecker, Rules
from ebbtide.batches.limits import check_room_for
from ebbtide.batches.model import DUTY_CHANNEL, WORK_CHANNEL, Item, Job, window_end
from ebbtide.batches.progress import read_batch
from ebbtide.catalog.catalog import Catalog
from ebbtide.clock import Clock
from ebbtide.dialects.openai.requests import CreateBatch
from ebbtide.dialects.values import ENDPOINTS, Target
from ebbtide.errors import Forbidden, InvalidRequest, Unauthenticated
from ebbtide.files.chunks import ChunkPacker
from ebbtide.files.model import DIRECT, UPLOADED, StoredFile
from ebbtide.files.store import get_file, insert_file
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

FILE_WINDOW_HOURS = 24
_DIRECT_NAME = "requests.jsonl"


@dataclass(frozen=True, slots=True)
class Intake:
    """What creating a batch works with: the snapshots in force when the call came."""

    database: Database
    catalog: Catalog
    settings: Settings
    clock: Clock


@dataclass(frozen=True, slots=True)
class _Checked:
    """Direct requests that may be stored: their items, and the packer that holds their lines."""

    target: Target
    items: list[Item]
    lines: ChunkPacker
    digest: bytes


async def create_batch(intake: Intake, principal: Principal, create: CreateBatch) -> Job:
    """Store a new batch and return it.

    Raises Forbidden below BATCH_MIN_ROLE; InvalidRequest naming the request or field at fault; LimitReached over a
    limit on unfinished work; Unauthenticated when key or account ended meanwhile. Nothing is stored then.
    """
    if principal.role < Role(intake.settings.batch_min_role):
        raise Forbidden("Your role may not create batches")
    if create.requests is not None:
        return await _create_direct(intake, principal, create, create.requests)
    return await _create_from_file(intake, principal, create)


async def _create_direct(
    intake: Intake, principal: Principal, create: CreateBatch, requests: Sequence[msgspec.Raw]
) -> Job:
    if len(requests) > intake.settings.batch_max_requests:
        raise InvalidRequest(
            f"requests holds {len(requests)} requests; a batch may hold {intake.settings.batch_max_requests}",
            param="requests",
        )
    with ChunkPacker() as packer:
        checked = await asyncio.to_thread(_check_requests, intake, principal, requests, packer)
        now = intake.clock.now()
        file = StoredFile(
            ids.file_id(), principal.account_id, None, DIRECT, _DIRECT_NAME, packer.size, checked.digest, now, None
        )
        hours = intake.settings.batch_completion_window_hours
        new = store.NewBatch(
            id=ids.batch_id(),
            account_id=principal.account_id,
            key_id=principal.key_id,
            api_surface="openai_inline",
            target=checked.target,
            input_id=file.id,
            metadata=_metadata(create),
            completion_window=f"{hours}h" if hours else "none",
            retention_days=intake.settings.batch_retention_days,
            phase="open",
            created_at=now,
            expires_at=window_end(now, hours),
            total=len(checked.items),
        )
        async with intake.database.transaction() as conn:
            await _admit(conn, intake.settings, new)
            await insert_file(conn, file, packer.chunks())
            batch_no = await store.insert_batch(conn, new)
            await store.add_items(conn, batch_no, checked.items, now)
            await notify(conn, WORK_CHANNEL)
            return await read_batch(conn, new.id)


def _check_requests(
    intake: Intake, principal: Principal, requests: Sequence[msgspec.Raw], packer: ChunkPacker
) -> _Checked:
    """Check and pack every request; runs in a thread. The first bad one raises, named by index and custom_id."""
    checker = RequestChecker(Rules(intake.catalog, principal.role, endpoint=None, one_model=False))
    longest = intake.settings.batch_max_line_kb * 1024
    items = []
    for index, raw in enumerate(requests):
        line = memoryview(raw)
        if len(line) > longest:
            raise InvalidRequest(f"requests[{index}]: larger than {longest // 1024} KiB", param=f"requests[{index}]")
        try:
            checked = checker.check(line)
        except InvalidRequest as error:
            raise _at_index(error, index) from None
        chunk, offset = packer.write_line(line)
        items.append(Item(checked.custom_id, checked.model, chunk, offset, len(line), checked.max_tokens))
    return _Checked(checker.target, items, packer, packer.finish())


def _at_index(error: InvalidRequest, index: int) -> InvalidRequest:
    custom_id = getattr(error, "__notes__", [None])[0]
    named = f" (custom_id {custom_id!r})" if custom_id is not None else ""
    where = f"requests[{index}]"
    param = f"{where}.{error.param}" if error.param else where
    code = error.code if error.code == ROUTE_UNAVAILABLE else None  # the other codes are those of a file's lines
    return InvalidRequest(f"{where}{named}: {error.message}", code=code, param=param)


async def _create_from_file(intake: Intake, principal: Principal, create: CreateBatch) -> Job:
    assert create.input_file_id is not None
    assert create.endpoint is not None
    now = intake.clock.now()
    hours = FILE_WINDOW_HOURS if intake.settings.batch_completion_window_hours else 0
    async with intake.database.transaction() as conn:
        file = await get_file(conn, create.input_file_id, now)
        if file is None or file.account_id != principal.account_id or file.purpose != UPLOADED:
            raise InvalidRequest(
                f"input_file_id names no uploaded batch file of yours: {create.input_file_id}", param="input_file_id"
            )
        new = store.NewBatch(
            id=ids.batch_id(),
            account_id=principal.account_id,
            key_id=principal.key_id,
            api_surface="openai_file",
            target=ENDPOINTS[create.endpoint],
            input_id=file.id,
            metadata=_metadata(create),
            completion_window=f"{FILE_WINDOW_HOURS}h",
            retention_days=intake.settings.batch_retention_days,
            phase="validating",
            created_at=now,
            expires_at=window_end(now, hours),
            total=0,
        )
        await _admit(conn, intake.settings, new)
        await store.insert_batch(conn, new)
        await notify(conn, DUTY_CHANNEL)
        return await read_batch(conn, new.id)


async def _admit(conn: Connection, settings: Settings, new: store.NewBatch) -> None:
    """Under the account's row: is the creator still valid, and is there room for one more batch of this size?"""
    if not await store.lock_creator(conn, new.account_id, new.key_id, new.created_at):
        raise Unauthenticated("The API key is no longer valid")
    await check_money_left(conn, new.key_id, new.created_at)
    check_room_for(new.total, await store.count_unfinished(conn, new.account_id), settings)
    await store.ensure_user_state(conn, new.account_id, new.created_at)


def _metadata(create: CreateBatch) -> str | None:
    return None if create.metadata is None else msgspec.json.encode(create.metadata).decode()
