"""All results of a batch that has ended, as one stream of JSONL in submission order."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ebbtide.batches.model import Job
from ebbtide.batches.results import stream_results
from ebbtide.delivery.lines import result_line
from ebbtide.errors import Conflict
from ebbtide.files.leases import reading
from ebbtide.storage.pool import Database


async def export_results(database: Database, job: Job, seconds: float) -> AsyncIterator[bytes]:
    """The lines, some at a time, under a lease that keeps the results for `seconds` whatever is deleted meanwhile.

    Raises Conflict while the batch has not ended.
    """
    check_ended(job)
    async with reading(database, seconds=seconds, batch_no=job.no):
        async for results in stream_results(database, job):
            yield b"".join([result_line(result) for result in results])


def check_ended(job: Job) -> None:
    """Raises Conflict while the batch has not ended."""
    if not job.has_ended:
        raise Conflict(f"The batch has not ended; its status is {job.status}", code="batch_not_ended")
