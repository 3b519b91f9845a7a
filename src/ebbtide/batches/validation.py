"""Checking a file batch whole, in the background: every line is good and its requests may run, or nothing of it does.

Problems are told by line, up to 1,000 of them; the last entry then says how many there are in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import msgspec

from ebbtide.accounts.roles import Role
from ebbtide.batches import intake_store as store
from ebbtide.batches.checks import Checked, GeminiChecker, RequestChecker
from ebbtide.batches.intake import Intake
from ebbtide.batches.limits import check_queued
from ebbtide.batches.model import GEMINI, WORK_CHANNEL, Item, LineProblem
from ebbtide.dialects.values import BOM, ENDPOINT_FOR
from ebbtide.errors import InvalidRequest, LimitReached
from ebbtide.files.chunks import RawChunk
from ebbtide.files.download import stream_chunks
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection

MAX_PROBLEMS: Final = 1_000


class Checker(Protocol):
    """What tells a good line from a bad one; raises InvalidRequest for the latter."""

    def check(self, raw: bytes | memoryview) -> Checked: ...


class LineReader:
    """Checks a file's chunks in order and gathers its items, or what is wrong with it."""

    def __init__(self, checker: Checker, *, max_line: int, max_requests: int) -> None:
        self.items: list[Item] = []
        self.problems: list[LineProblem] = []
        self.problem_count = 0
        self._checker = checker
        self._max_line = max_line
        self._max_requests = max_requests
        self._line = 0
        self._requests = 0

    def read(self, chunk: RawChunk) -> None:
        """Check the lines of one chunk; blank ones count as lines and are nothing else."""
        for offset, line in _lines(chunk.data):
            if chunk.raw_offset + offset == 0 and line.startswith(BOM):
                offset, line = offset + len(BOM), line[len(BOM) :]
            self._line += 1
            if line.strip():
                self._check(chunk.number, offset, line)

    def finish(self) -> None:
        """After the last chunk: what only shows at the end."""
        if self._requests == 0:
            self._add(LineProblem("empty_file", "The file holds no requests"))
        if self._requests > self._max_requests:
            self._add(
                LineProblem(
                    "too_many_tasks",
                    f"The file holds {self._requests} requests; a batch may hold {self._max_requests}",
                )
            )
        if self.problem_count > MAX_PROBLEMS:
            told = f"{self.problem_count} problems in all; the first {MAX_PROBLEMS - 1} are listed"
            self.problems[MAX_PROBLEMS - 1 :] = [LineProblem("too_many_problems", told)]

    def _check(self, chunk: int, offset: int, line: bytes) -> None:
        self._requests += 1
        if self._requests > self._max_requests:
            return
        if len(line) > self._max_line:
            self._add(LineProblem("line_too_long", f"longer than {self._max_line // 1024} KiB", line=self._line))
            return
        try:
            checked = self._checker.check(line)
        except InvalidRequest as error:
            self._add(LineProblem(error.code or "invalid_request", error.message, error.param, self._line))
            return
        if not self.problem_count:
            self.items.append(Item(checked.custom_id, checked.model, chunk, offset, len(line), checked.max_tokens))

    def _add(self, problem: LineProblem) -> None:
        self.problem_count += 1
        self.items.clear()
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def _lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """(offset, line) for each line of a chunk, without its end (LF or CRLF)."""
    offset = 0
    while offset < len(raw):
        end = raw.find(b"\n", offset)
        if end < 0:
            end = len(raw)
        yield offset, raw[offset:end].removesuffix(b"\r")
        offset = end + 1


async def validate_next(intake: Intake, worker_no: int) -> int:
    """Validate the batch that has waited longest; 0 when none waits. Repeated from the start after a crash."""
    async with intake.database.transaction() as conn:
        claimed = await store.claim_validation(conn, worker_no)
        role = None if claimed is None else await store.account_role(conn, claimed.account_id)
    if claimed is None or role is None:
        return 0
    settings = intake.settings
    reader = LineReader(
        _checker(intake, claimed, Role(role)),
        max_line=settings.batch_max_line_kb * 1024,
        max_requests=settings.batch_max_requests,
    )
    async for chunk in stream_chunks(intake.database, claimed.input_id):
        await asyncio.to_thread(reader.read, chunk)
    reader.finish()
    async with intake.database.transaction() as conn:
        await _conclude(conn, intake, (claimed, worker_no), reader)
    return 1


def _checker(intake: Intake, claimed: store.Validation, role: Role) -> Checker:
    rules = intake.rules(role, claimed.anthropic_version, ENDPOINT_FOR[claimed.target].url)
    if claimed.api_surface == GEMINI and claimed.model is not None:
        return GeminiChecker(rules, claimed.target, claimed.model)
    return RequestChecker(rules)


async def _conclude(conn: Connection, intake: Intake, claim: tuple[store.Validation, int], reader: LineReader) -> None:
    """Open the batch or reject it, unless it was cancelled, deleted or taken over while it was read."""
    batch, worker_no = claim
    now = intake.clock.now()
    valid = await store.lock_creator(conn, batch.account_id, batch.key_id, now)
    if not await store.lock_validating(conn, batch.no, worker_no):
        return
    problems = list(reader.problems)
    # A batch whose creator may no longer act opens all the same: the first claim fails it, and says why.
    if not problems and valid:
        unfinished = await store.count_unfinished(conn, batch.account_id)
        try:
            check_queued(len(reader.items), unfinished.requests, intake.settings)
        except LimitReached as error:
            problems = [LineProblem(error.code or "limit_reached", error.message)]
    if problems:
        await store.reject_batch(conn, batch.no, _error_list(problems), now)
        return
    await store.add_items(conn, batch.no, reader.items, now)
    await store.open_batch(conn, batch.no, reader.items, now)
    await notify(conn, WORK_CHANNEL)


def _error_list(problems: Sequence[LineProblem]) -> str:
    return msgspec.json.encode(problems).decode()
