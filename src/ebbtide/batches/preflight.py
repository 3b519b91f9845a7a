"""Checking a file's lines before they are a batch, by the rules of a file batch: nothing is stored, run or billed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.accounts.store import Principal
from ebbtide.batches.checks import RequestChecker
from ebbtide.batches.intake import Intake, check_may_create
from ebbtide.batches.model import LineProblem
from ebbtide.batches.validation import LineReader
from ebbtide.files.chunks import RawChunk


@dataclass(frozen=True, slots=True)
class Preflight:
    """What would become of a file: its requests and their canonical model, or its problems, the first of which are
    listed. `digest` is the SHA-256 of its bytes.
    """

    requests: int
    model: str | None
    digest: bytes
    problems: Sequence[LineProblem]
    problem_count: int


async def check_lines(intake: Intake, principal: Principal, raw: bytes, endpoint: str) -> Preflight:
    """Hold JSONL to what a file batch for `endpoint` is held to. Raises Forbidden below BATCH_MIN_ROLE."""
    check_may_create(principal, intake.settings)
    rules = intake.rules(principal.role, None, endpoint)
    settings = intake.settings
    reader = LineReader(
        RequestChecker(rules), max_line=settings.batch_max_line_kb * 1024, max_requests=settings.batch_max_requests
    )
    return await asyncio.to_thread(_read, reader, raw)


def _read(reader: LineReader, raw: bytes) -> Preflight:
    reader.read(RawChunk(0, 0, raw))
    reader.finish()
    model = reader.items[0].model if reader.items else None
    digest = hashlib.sha256(raw).digest()
    return Preflight(len(reader.items), model, digest, reader.problems, reader.problem_count)
