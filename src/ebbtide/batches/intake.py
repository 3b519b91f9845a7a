"""Creating a batch: everything is checked, then everything is stored in one transaction, and nothing runs in the call.

Direct requests are checked whole before the answer; a file is only looked up, and validated by a worker afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from ebbtide import ids
from ebbtide.accounts.quotas import check_money_left
from ebbtide.accounts.roles import Role, refusal
from ebbtide.accounts.store import Principal
from ebbtide.batches import intake_store as store
from ebbtide.batches.checks import ROUTE_UNAVAILABLE, Carries, RequestChecker, Rules
from ebbtide.batches.idempotency import KeyTaken, Once, claim_key, find_replay
from ebbtide.batches.limits import check_room_for
from ebbtide.batches.model import DUTY_CHANNEL, GEMINI, MESSAGE_BATCHES, WORK_CHANNEL, Item, Job, window_end
from ebbtide.batches.progress import Moment, read_batch
from ebbtide.batches.settle_store import finish_batches
from ebbtide.catalog.catalog import Catalog
from ebbtide.clock import Clock
from ebbtide.dialects.openai.faults import at_index, read_custom_id, with_name
from ebbtide.dialects.openai.requests import CreateBatch, check_count, create_target
from ebbtide.dialects.values import ENDPOINT_AT, Target, Terms
from ebbtide.errors import Forbidden, InvalidRequest, Unauthenticated
from ebbtide.files.chunks import LONGEST_LINE, ChunkPacker
from ebbtide.files.model import DIRECT, UPLOADED, StoredFile
from ebbtide.files.store import get_file, insert_file
from ebbtide.settings.snapshot import Settings
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

FILE_WINDOW_HOURS = 24
_DIRECT_NAME = "requests.jsonl"


@dataclass(frozen=True, slots=True)
class Intake:
    """What creating a batch works with: the snapshots in force when the call came, and what tells whether routes can
    carry a request.
    """

    database: Database
    catalog: Catalog
    settings: Settings
    clock: Clock
    carries: Carries

    def rules(self, role: Role, version: str | None, endpoint: str | None = None) -> Rules:
        """What the requests of a batch are held to; `endpoint` is a file's."""
        terms = Terms(self.settings.request_limits, version)
        return Rules(self.catalog, role, endpoint, one_model=endpoint is not None, terms=terms, carries=self.carries)


@dataclass(frozen=True, slots=True)
class Direct:
    """Requests that passed their checks and may be stored: their items, and the packer that holds their lines.

    `model` is the one that all of them are for, where the call says so.
    """

    target: Target
    items: list[Item]
    lines: ChunkPacker
    digest: bytes
    surface: str = "openai_inline"
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What goes with a new batch's requests: its metadata as JSON, the key that makes its create safe to repeat,
    how long its result files are wanted, the version of the Messages API that they are written for, what it is called,
    and its priority among its account's: the higher comes first.
    """

    metadata: str | None
    once: Once | None = None
    output_seconds: int | None = None
    version: str | None = None
    name: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class FileSource:
    """An uploaded file of requests: how and for what they came, the field that named it, the model that its lines
    are for where they name none themselves, and how the call named the file, where that is not its id.
    """

    surface: str
    target: Target
    file_id: str
    field: str
    model: str | None = None
    named: str | None = None


async def create_batch(
    intake: Intake, principal: Principal, create: CreateBatch, once: Once | None = None, version: str | None = None
) -> Job:
    """Store a new batch and return it; or the batch of `once`, when another create with that key was faster.

    `version` is what the call's anthropic-version says.

    Raises Forbidden below BATCH_MIN_ROLE; InvalidRequest naming the request or field at fault; LimitReached over a
    limit on unfinished work; Unauthenticated when key or account ended meanwhile. Nothing is stored then.
    """
    check_may_create(principal, intake.settings)
    check_version(create_target(create), version, intake.settings)
    wish = Wish(_metadata(create), once, create.output_seconds, version)
    requests = create.requests
    if requests is not None:
        return await stored_once(intake, principal, once, lambda: _create_direct(intake, principal, requests, wish))
    assert create.input_file_id is not None
    assert create.endpoint is not None
    source = FileSource("openai_file", ENDPOINT_AT[create.endpoint].target, create.input_file_id, "input_file_id")
    return await stored_once(intake, principal, once, lambda: store_from_file(intake, principal, source, wish))


def check_version(target: Target | None, version: str | None, settings: Settings) -> None:
    """Raises InvalidRequest when a batch for this target lacks an anthropic-version, or has one that it must not."""
    allowed = settings.batch_anthropic_versions.split(",")
    if target == "messages" and version not in allowed:
        known = " or ".join(allowed)
        raise InvalidRequest(
            f"anthropic-version: a batch for /v1/messages needs this header, {known}", param="anthropic-version"
        )
    if target != "messages" and version is not None:
        raise InvalidRequest(
            "anthropic-version is not allowed: only a batch for /v1/messages has one", param="anthropic-version"
        )


def check_may_create(principal: Principal, settings: Settings) -> None:
    """Raises Forbidden below BATCH_MIN_ROLE."""
    needed = Role(settings.batch_min_role)
    if principal.role < needed:
        raise Forbidden(refusal(principal.role, "create batches", needed))


async def stored_once(
    intake: Intake, principal: Principal, once: Once | None, store_batch: Callable[[], Awaitable[Job]]
) -> Job:
    """What `store_batch` stores, or the batch that another create with the same key stored meanwhile."""
    while True:
        try:
            return await store_batch()
        except KeyTaken:
            assert once is not None
            moment = Moment(intake.clock.now(), intake.settings.batch_min_role)
            job = await find_replay(intake.database, principal.account_id, once, moment)
            if job is not None:
                return job


async def _create_direct(intake: Intake, principal: Principal, requests: Sequence[msgspec.Raw], wish: Wish) -> Job:
    check_count(len(requests), intake.settings.batch_max_requests)
    with ChunkPacker() as packer:
        checked = await asyncio.to_thread(_check_requests, intake, (principal.role, wish.version), requests, packer)
        return await store_direct(intake, principal, checked, wish)


async def store_direct(intake: Intake, principal: Principal, direct: Direct, wish: Wish) -> Job:
    """Store a batch of checked requests in one transaction; it is open from the start. Raises as create_batch does."""
    now = intake.clock.now()
    hours = FILE_WINDOW_HOURS if direct.surface == MESSAGE_BATCHES else intake.settings.batch_completion_window_hours
    requests = _Requests(direct.surface, direct.target, ids.file_id(), direct.items, direct.model)
    new = _new_batch(intake, principal, wish, requests, _Window(now, hours, f"{hours}h" if hours else "none"))
    lines = direct.lines
    file = StoredFile(new.input_id, new.account_id, None, DIRECT, _DIRECT_NAME, lines.size, direct.digest, now, None)
    async with intake.database.transaction() as conn:
        await claim_key(conn, new.account_id, wish.once, new.id, now)
        await _admit(conn, intake.settings, new)
        await insert_file(conn, file, lines.chunks())
        batch_no = await store.insert_batch(conn, new)
        await store.add_items(conn, batch_no, direct.items, now)
        await finish_batches(conn, [batch_no], now)  # where no request was good
        await notify(conn, WORK_CHANNEL)
        return await read_batch(conn, new.id)


def _check_requests(
    intake: Intake, terms: tuple[Role, str | None], requests: Sequence[msgspec.Raw], packer: ChunkPacker
) -> Direct:
    """Check and pack every request; runs in a thread. The first bad one raises, named by index and custom_id."""
    checker = RequestChecker(intake.rules(*terms))
    items = []
    for index, raw in enumerate(requests):
        line = memoryview(raw)
        try:
            if len(line) > LONGEST_LINE:
                raise with_name(InvalidRequest(f"larger than {LONGEST_LINE >> 20} MiB"), read_custom_id(line))
            checked = checker.check(line)
        except InvalidRequest as error:
            raise _at_index(error, index) from None
        chunk, offset = packer.write_line(line)
        items.append(Item(checked.custom_id, checked.model, chunk, offset, len(line), checked.max_tokens))
    return Direct(checker.target, items, packer, packer.finish())


def _at_index(error: InvalidRequest, index: int) -> InvalidRequest:
    named = at_index(error, index)
    named.code = error.code if error.code == ROUTE_UNAVAILABLE else None  # the other codes are those of a file's lines
    return named


async def store_from_file(intake: Intake, principal: Principal, source: FileSource, wish: Wish) -> Job:
    """Store a batch whose file is still to be validated. Raises as create_batch does."""
    now = intake.clock.now()
    hours = FILE_WINDOW_HOURS if intake.settings.batch_completion_window_hours else 0
    requests = _Requests(source.surface, source.target, source.file_id, model=source.model)
    new = _new_batch(intake, principal, wish, requests, _Window(now, hours, f"{FILE_WINDOW_HOURS}h"))
    async with intake.database.transaction() as conn:
        await claim_key(conn, new.account_id, wish.once, new.id, now)
        file = await get_file(conn, source.file_id, now)
        if file is None or file.account_id != principal.account_id or file.purpose != UPLOADED:
            raise InvalidRequest(
                f"{source.field} names no uploaded batch file of yours: {source.named or source.file_id}",
                param=source.field,
            )
        await _admit(conn, intake.settings, new)
        await store.insert_batch(conn, new)
        await notify(conn, DUTY_CHANNEL)
        return await read_batch(conn, new.id)


@dataclass(frozen=True, slots=True)
class _Requests:
    """A batch's requests: how they came, what for, the file of their lines; `items` None until that has been read.

    `model` is the one that all of them are for, where the call says so.
    """

    api_surface: str
    target: Target
    input_id: str
    items: Sequence[Item] | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class _Window:
    """When a batch begins, for how many hours (0: no end), and how that is told."""

    begins: datetime
    hours: int
    told: str


def _new_batch(
    intake: Intake, principal: Principal, wish: Wish, requests: _Requests, window: _Window
) -> store.NewBatch:
    """The row of a new batch: open, or validating while its requests are still to be read."""
    items = requests.items
    return store.NewBatch(
        id=ids.message_batch_id() if requests.api_surface == MESSAGE_BATCHES else ids.batch_id(),
        account_id=principal.account_id,
        key_id=principal.key_id,
        api_surface=requests.api_surface,
        target=requests.target,
        input_id=requests.input_id,
        metadata=wish.metadata,
        completion_window=window.told,
        retention_days=intake.settings.batch_retention_days,
        phase="validating" if items is None else "open",
        created_at=window.begins,
        expires_at=window_end(window.begins, window.hours),
        total=0 if items is None else len(items),
        model=requests.model or (None if items is None else store.model_of(items)),
        output_seconds=wish.output_seconds,
        anthropic_version=wish.version,
        failed=sum(item.state == "failed" for item in items or ()),
        name=wish.name,
        priority=wish.priority,
        from_file=requests.api_surface == GEMINI and items is None,
    )


async def _admit(conn: Connection, settings: Settings, new: store.NewBatch) -> None:
    """Under the account's row: is the creator still valid, and is there room for one more batch of this size?"""
    if not await store.lock_creator(conn, new.account_id, new.key_id, new.created_at):
        raise Unauthenticated("The API key is no longer valid")
    await check_money_left(conn, new.key_id, new.created_at, settings)
    check_room_for(new.total, await store.count_unfinished(conn, new.account_id), settings)
    await store.ensure_user_state(conn, new.account_id, new.created_at)


def _metadata(create: CreateBatch) -> str | None:
    return None if create.metadata is None else msgspec.json.encode(create.metadata).decode()
