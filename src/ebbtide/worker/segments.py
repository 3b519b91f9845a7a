"""Answers at rest: those of one settle and batch in one zstd frame, since many together shrink far better than one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import zstandard

from ebbtide.worker.verdicts import Verdict

SEGMENT_BYTES: Final = 4 << 20
_IN_THREAD: Final = 256 << 10


@dataclass(slots=True)
class Segment:
    """One frame: which answers it holds, each with its offset and length in the raw bytes."""

    batch_no: int
    answers: list[tuple[Verdict, int, int]] = field(default_factory=list)
    size: int = 0
    data: bytes = b""


async def pack_answers(verdicts: Sequence[Verdict]) -> list[Segment]:
    """The segments for the verdicts that carry an answer; big ones are compressed outside the event loop."""
    open_segments: dict[int, Segment] = {}
    segments: list[Segment] = []
    for verdict in verdicts:
        if verdict.verb != "complete":
            continue
        batch_no = verdict.done.work.batch.no
        segment, length = open_segments.get(batch_no), verdict.answer_length
        if segment is None or segment.size + length > SEGMENT_BYTES:
            segment = open_segments[batch_no] = Segment(batch_no)
            segments.append(segment)
        segment.answers.append((verdict, segment.size, length))
        segment.size += length
    if sum(segment.size for segment in segments) > _IN_THREAD:
        await asyncio.to_thread(_compress, segments)
    else:
        _compress(segments)
    return segments


def _compress(segments: Sequence[Segment]) -> None:
    compressor = zstandard.ZstdCompressor(level=3)
    for segment in segments:
        segment.data = compressor.compress(b"".join(verdict.answer for verdict, _, _ in segment.answers))
