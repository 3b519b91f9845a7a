"""The requests of an ended batch that did not succeed, as an input file: to be mended and submitted again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from ebbtide.batches.model import Job
from ebbtide.batches.resubmit import list_unsuccessful
from ebbtide.dialects.values import ENDPOINT_FOR
from ebbtide.errors import InvalidRequest
from ebbtide.files.download import read_chunk
from ebbtide.files.leases import reading
from ebbtide.storage.pool import Database

TARGETS = ("chat", "embeddings")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def check_exportable(job: Job) -> None:
    """Raises InvalidRequest for a batch whose requests make no input file of the console's."""
    if job.target not in TARGETS:
        raise InvalidRequest(f"Only requests of batches for {' or '.join(TARGETS)} are exported as an input file")


async def export_unfinished(database: Database, job: Job, seconds: float) -> AsyncIterator[bytes]:
    """Their lines in the order of submission, some at a time, under a lease that keeps them for `seconds`."""
    url = ENDPOINT_FOR[job.target].url
    async with reading(database, seconds=seconds, batch_no=job.no):
        async for rows in list_unsuccessful(database, job):
            for chunk, group in groupby(rows, key=itemgetter("chunk")):
                raw = await read_chunk(database, job.input_id, chunk)
                yield await asyncio.to_thread(_lines, raw, list(group), url)


def _lines(raw: bytes, rows: Sequence[Any], url: str) -> bytes:
    places = (slice(row["line_offset"], row["line_offset"] + row["line_length"]) for row in rows)
    return b"".join(_as_file_line(raw[place], url) + b"\n" for place in places)


def _as_file_line(line: bytes, url: str) -> bytes:
    """A line as files have it: with its method and url, which direct requests may leave out, and without breaks."""
    members = _members(line)
    if "method" in members and "url" in members and b"\n" not in line:
        return line.strip()
    filled = {
        "custom_id": members["custom_id"],
        "method": "POST",
        "url": url,
        "body": members["body"],
    }
    return msgspec.json.encode({**members, **filled}).replace(b"\n", b" ").replace(b"\r", b" ")
