"""Freezing a finished file batch: its results become an output file and an error file, then it is published.

One worker seals a batch at a time, a small and a large one side by side. Nothing shows before the last transaction;
after a crash it is done again from the start, with the same bytes, and what was half written is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

import structlog

from ebbtide import ids
from ebbtide.batches import end_store
from ebbtide.batches.model import GEMINI, Job
from ebbtide.batches.progress import read_batch
from ebbtide.batches.results import Result, stream_results
from ebbtide.clock import Clock
from ebbtide.delivery.gemini_lines import gemini_line
from ebbtide.delivery.lines import result_line, succeeded
from ebbtide.files import store as files
from ebbtide.files.chunks import ChunkPacker
from ebbtide.storage.pool import Connection, Database

log = structlog.get_logger(__name__)

Sizes: TypeAlias = tuple[int, int]
"""Bytes of answers, from the one to the other."""
ANY: Final[Sizes] = (0, 2**63 - 1)
SMALL: Final[Sizes] = (0, 16 << 20)
LARGE: Final[Sizes] = (SMALL[1] + 1, ANY[1])


class Superseded(Exception):
    """Another worker has taken over the sealing and dropped what was written here."""


class ResultWriter:
    """Writes one result file, a few chunks at a time. No file comes to be when nothing is written."""

    def __init__(self, job: Job, name: str) -> None:
        self._job = job
        self._name = name
        self._line = gemini_line if job.api_surface == GEMINI else result_line
        self._packer = ChunkPacker()
        self._began = False
        self._digest = b""
        self.file_id = ids.file_id()

    def add(self, results: Sequence[Result]) -> None:
        for result in results:
            self._packer.write(self._line(result))

    async def store(self, database: Database, now: datetime) -> None:
        """Store what has been packed so far. Raises Superseded."""
        chunks = self._packer.take()
        if not chunks:
            return
        async with database.transaction() as conn:
            if not self._began:
                file = files.ResultFile(self.file_id, self._job.account_id, self._job.id, self._name)
                await files.begin_file(conn, file, now)
            elif not await files.hold_unfinished(conn, self.file_id):
                raise Superseded
            await files.add_chunks(conn, self.file_id, chunks)
        self._began = True

    async def finish(self, database: Database, now: datetime) -> None:
        """Pack and store the rest."""
        self._digest = self._packer.finish()
        await self.store(database, now)

    async def publish(self, conn: Connection, times: tuple[datetime, datetime | None]) -> None:
        """Fix size and digest; `times`: when the file came to be, and when it goes. Raises Superseded."""
        if self._began and not await files.finish_file(conn, self.file_id, self._packer.size, self._digest, times):
            raise Superseded

    @property
    def written_id(self) -> str | None:
        return self.file_id if self._began else None

    def close(self) -> None:
        self._packer.close()


async def seal_next(database: Database, worker_no: int, clock: Clock, sizes: Sizes = ANY) -> int:
    """Seal the batch of `sizes` that has waited longest; 0 when none waits. Sizes sealed side by side never overlap."""
    async with database.transaction() as conn:
        batch_id = await end_store.claim_sealing(conn, worker_no, sizes)
        if batch_id is None:
            return 0
        job = await read_batch(conn, batch_id)
        await files.drop_unfinished(conn, batch_id)
    output, errors = ResultWriter(job, f"{job.id}_output.jsonl"), ResultWriter(job, f"{job.id}_errors.jsonl")
    try:
        await write_results(database, job, (output, errors), clock)
        async with database.transaction() as conn:
            await _publish(conn, job, worker_no, (output, errors), clock.now())
    except Superseded:
        log.warning("seal_superseded", batch=job.id, worker=worker_no)
        async with database.transaction() as conn:
            await files.drop_files(conn, [output.file_id, errors.file_id])
    finally:
        output.close()
        errors.close()
    return 1


async def write_results(database: Database, job: Job, writers: tuple[ResultWriter, ResultWriter], clock: Clock) -> None:
    """Write the output file and the error file, without publishing them; Gemini's batches have both in one.

    Raises Superseded.
    """
    output, errors = writers
    in_one_file = job.api_surface == GEMINI
    async for results in stream_results(database, job):
        await asyncio.to_thread(output.add, [r for r in results if in_one_file or succeeded(r)])
        await asyncio.to_thread(errors.add, [r for r in results if not (in_one_file or succeeded(r))])
        for writer in writers:
            await writer.store(database, clock.now())
    for writer in writers:
        await writer.finish(database, clock.now())


async def _publish(
    conn: Connection, job: Job, worker_no: int, writers: tuple[ResultWriter, ResultWriter], now: datetime
) -> None:
    """Make ids, status and files visible together; if the batch is somebody else's by now, leave no trace.

    Raises Superseded when a file is gone: nothing of it may stand then.
    """
    output, errors = writers
    published = end_store.ResultFiles(output.written_id, errors.written_id)
    expires = await end_store.seal(conn, job.no, worker_no, published, now)
    if expires is None:
        await files.drop_files(conn, [writer.file_id for writer in writers])
        return
    for writer in writers:
        await writer.publish(conn, (now, expires))
