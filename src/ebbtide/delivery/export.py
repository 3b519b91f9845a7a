"""All results of a batch that has ended, as one stream of JSONL in submission order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from ebbtide.batches.model import Job
from ebbtide.batches.results import Result, stream_results
from ebbtide.delivery.lines import result_line
from ebbtide.errors import Conflict
from ebbtide.files.leases import reading
from ebbtide.storage.pool import Database


def export_results(database: Database, job: Job, seconds: float) -> AsyncIterator[bytes]:
    """The lines in the shape of OpenAI's files; as export_lines. Raises Conflict while the batch has not ended."""
    check_ended(job)
    return export_lines(database, job, seconds, result_line)


async def export_lines(
    database: Database, job: Job, seconds: float, line: Callable[[Result], bytes]
) -> AsyncIterator[bytes]:
    """The lines of an ended batch, some at a time, under a lease that keeps its results for `seconds` whatever is
    deleted meanwhile.
    """
    async with reading(database, seconds=seconds, batch_no=job.no):
        async for results in stream_results(database, job):
            yield b"".join([line(result) for result in results])


def check_ended(job: Job) -> None:
    """Raises Conflict while the batch has not ended."""
    if not job.has_ended:
        raise Conflict(f"The batch has not ended; its status is {job.status}", code="batch_not_ended")
