"""The request log of interactive requests: rows kept in memory for a moment, written in groups with their charges.

A row, its charge and its content (where that is kept) are one transaction, and a group whose commit went unanswered is
known again by its number: no row is written twice. What is not written yet is bounded; whoever starts a request waits
for room first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Final

import asyncpg
import msgspec
import structlog

from ebbtide.dialects.values import Usage
from ebbtide.duties import Duty
from ebbtide.errors import Unavailable
from ebbtide.records.capture import Capture, Captures, pack_captures
from ebbtide.records.content import Content, add_contents
from ebbtide.records.metrics import LOG_CONTENTS, LOG_ROWS
from ebbtide.records.spend import Charge, add_charges
from ebbtide.storage.notify import Wake
from ebbtide.storage.pool import Connection, Database
from ebbtide.storage.queries import load_queries

log = structlog.get_logger(__name__)

_Q = load_queries("ebbtide.records", "request_log.sql")
EVERY: Final = 0.2
GROUP: Final = 500
MOST_WAITING: Final = 20_000
PATIENCE: Final = 5.0


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One row of `api_logs`; the fields are its columns.

    `cost_usd` None: unknown; what no upstream saw costs 0. `attempts` counts the upstream calls, None where that is
    not known. Times in milliseconds.
    """

    at: datetime
    request_id: str
    account_id: str
    key_id: str
    source: str
    target: str
    model: str
    route: str | None
    status_code: int
    error_code: str | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: Decimal | None
    first_token_ms: int | None
    total_ms: int
    attempts: int | None
    streamed: bool

    @property
    def charge(self) -> Charge | None:
        """What is charged for it; None without a known bill."""
        if self.cost_usd is None or self.input_tokens is None:
            return None
        usage = Usage(self.input_tokens, self.cached_tokens or 0, self.output_tokens or 0, self.reasoning_tokens or 0)
        return Charge(self.account_id, self.key_id, self.source, usage, self.cost_usd)


_COLUMNS: Final = LogEntry.__struct_fields__
Waiting = tuple[LogEntry, Callable[[], None] | None, Capture | None]


class RequestLog:
    """Rows of one process on their way into the database. `waiting` counts those that are not written yet.

    `captures` holds what the requests say, while that is to be kept.
    """

    def __init__(
        self, database: Database, process: str, captures: Captures | None = None, *, most: int = MOST_WAITING
    ) -> None:
        self.captures = captures or Captures(lambda: False)
        self._database = database
        self._process = process
        self._most = most
        self._rows: deque[Waiting] = deque()
        self._group: list[Waiting] = []  # being written, under the number `_no`
        self._contents: list[tuple[datetime, str, Content]] | None = None  # of the group, once they are packed
        self._no = 0
        self._singly = 0  # rows still to be written one by one
        self._wake = Wake()
        self._room = asyncio.Event()
        self._room.set()
        self._writing = asyncio.Lock()

    @property
    def waiting(self) -> int:
        return len(self._rows) + len(self._group)

    async def wait_for_room(self) -> None:
        """Return at once while there is room for more rows. Raises Unavailable when there is none for seconds."""
        if self._room.is_set():
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._room.wait()
        except TimeoutError:
            raise Unavailable("Requests cannot be recorded at the moment", retry_after=PATIENCE) from None

    def put(
        self, entry: LogEntry, on_written: Callable[[], None] | None = None, capture: Capture | None = None
    ) -> None:
        """Keep a row until it is written; `on_written` is called once it and its charge are."""
        self._rows.append((entry, on_written, capture))
        if len(self._rows) == GROUP:
            self._wake.ring()
        if self.waiting >= self._most:
            self._room.clear()

    def duty(self) -> Duty:
        """Writing a few times a second, and the rest at the end."""
        return Duty("request log", self.run_once, EVERY, self._wake, at_end=self.flush)

    async def flush(self, now: datetime) -> int:
        """Write everything. Raises Unavailable, and then keeps the rows."""
        count = 0
        while self.waiting:
            count += await self._write_group()
        async with self._database.connection() as conn:
            await conn.execute(_Q["forget_groups"], self._process)
        return count

    async def run_once(self, now: datetime) -> int:
        """Write a group; returns how many rows, 0 when the next one can wait. Raises Unavailable, and keeps them."""
        count = await self._write_group() if self.waiting else 0
        return count if self._singly or len(self._rows) >= GROUP else 0

    async def _write_group(self) -> int:
        async with self._writing:
            if not self._group:
                count = 1 if self._singly else min(len(self._rows), 4 * GROUP)
                self._group = [self._rows.popleft() for _ in range(count)]
                self._no += 1
                self._contents = None
            if self._contents is None:
                self._contents = await _packed(self._group)
            try:
                await self._store([entry for entry, _, _ in self._group])
            except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError, OverflowError) as error:
                return self._set_apart(error)
            return self._written("written")

    def _written(self, result: str) -> int:
        self._singly = max(0, self._singly - 1)
        group, self._group = self._group, []
        for _, on_written, capture in group:
            if on_written is not None:
                on_written()
            if capture is not None:
                capture.drop()
        LOG_CONTENTS.labels(result).inc(len(self._contents or ()))
        self._contents = None
        LOG_ROWS.labels(result).inc(len(group))
        if self.waiting < self._most:
            self._room.set()
        return len(group)

    async def _store(self, entries: Sequence[LogEntry]) -> None:
        async with self._database.transaction() as conn:
            if await conn.fetchrow(_Q["start_group"], self._process, self._no) is not None:
                await _insert(conn, entries)
                await add_contents(conn, self._contents or ())

    def _set_apart(self, error: Exception) -> int:
        """Something in the group cannot be stored: everything else will be, row by row, and that is told."""
        if len(self._group) == 1:
            log.error("request_not_logged", request_id=self._group[0][0].request_id, error=type(error).__name__)
            return self._written("dropped")
        self._singly = len(self._group)
        self._rows.extendleft(reversed(self._group))
        self._group = []
        return 1


async def _packed(group: Sequence[Waiting]) -> list[tuple[datetime, str, Content]]:
    """The contents of a group's rows that have any."""
    held = [
        (entry.at, entry.request_id, capture)
        for entry, _, capture in group
        if capture is not None and not capture.is_lost
    ]
    if not held:
        return []
    contents = await asyncio.to_thread(pack_captures, [capture for *_, capture in held])
    return [(at, request_id, content) for (at, request_id, _), content in zip(held, contents, strict=True)]


async def _insert(conn: Connection, entries: Sequence[LogEntry]) -> None:
    await conn.copy_records_to_table(
        "api_logs", records=[msgspec.structs.astuple(entry) for entry in entries], columns=_COLUMNS
    )
    charged = [(entry.at.date(), charge) for entry in entries if (charge := entry.charge) is not None]

    def day_of(one: tuple[date, Charge]) -> date:
        return one[0]

    for day, charges in groupby(sorted(charged, key=day_of), key=day_of):
        await add_charges(conn, [charge for _, charge in charges], day)
