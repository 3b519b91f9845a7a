"""What taking a batch in costs beyond reading it: a create of 50,000 requests (32 MiB), direct and from a file.

Time of the whole call (for a file: of the validation that a worker does), over the time that parsing and validating
the same lines takes alone; and how far the process's memory grows beyond idle, over the size of the body.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

import msgspec

from bench.bodies import create_body, request_lines
from bench.figures import Figure, main, median_of, ratios
from bench.forms import FORM_TYPE, upload_form
from bench.processes import Process, call
from bench.stage import Gateway, Stage, stage
from ebbtide.accounts.roles import Role
from ebbtide.batches.checks import RequestChecker
from ebbtide.batches.intake import Intake
from ebbtide.dialects.openai.requests import parse_create

_NO_WORK = {"batch_model_concurrency": 0, "batch_max_body_mb": 64}


class _Grown:
    """How far a process's memory rose above where it stood."""

    def __init__(self, process: Process) -> None:
        self._process = process
        process.forget_peak()
        self._idle = process.memory()

    def over(self, size: int) -> float:
        return (self._process.peak() - self._idle) / size


async def measure(options: argparse.Namespace) -> list[Figure]:
    lines = request_lines(options.requests, options.line_bytes - 90)
    async with stage() as on:
        models = on.models()
        intake = await on.intake(models)
        body, upload = create_body(lines), on.folder / "upload.txt"
        upload.write_bytes(upload_form(b"\n".join(lines)))
        async with on.gateway("all", models, **_NO_WORK) as running:
            figures = await _direct(on, running, intake, body, options.runs)
            return figures + await _file(on, running, intake, (upload, lines), options.runs)


async def _direct(on: Stage, running: Gateway, intake: Intake, raw: bytes, runs: int) -> list[Figure]:
    body = on.folder / "create.json"
    body.write_bytes(raw)
    alone, whole, cpu, memory = [], [], [], []
    for _ in range(runs):
        alone.append(await asyncio.to_thread(_parse_direct, intake, raw))
        grown, before = _Grown(running.process), running.process.cpu()
        reply = await call("POST", running.url + "/v1/batches", on.key, "--body", str(body))
        whole.append(reply.seconds)
        cpu.append(running.process.cpu() - before)
        memory.append(grown.over(len(raw)))
    return [
        median_of("intake, direct: create over parsing alone", ratios(whole, alone), goal=3.0, reach="at most"),
        median_of("intake, direct: memory grown over the body", memory, goal=3.0, reach="at most"),
        median_of("intake, direct: CPU of create over parsing alone", ratios(cpu, alone)),
        median_of("intake, direct: parsing and validating alone", alone, "s"),
    ]


def _parse_direct(intake: Intake, raw: bytes) -> float:
    """Seconds to parse and validate a create body."""
    began = time.perf_counter()
    checker = RequestChecker(intake.rules(Role.INTERNAL, None))
    for request in parse_create(raw, intake.settings.batch_max_requests).requests or ():
        checker.check(memoryview(request))
    return time.perf_counter() - began


async def _file(on: Stage, running: Gateway, intake: Intake, sent: tuple[Path, list[bytes]], runs: int) -> list[Figure]:
    upload, lines = sent
    size = sum(map(len, lines)) + len(lines)
    alone, whole, memory, uploading = [], [], [], []
    for _ in range(runs):
        alone.append(await asyncio.to_thread(_parse_lines, intake, lines))
        grown = _Grown(running.process)
        reply = await call(
            "POST", running.url + "/v1/files", on.key, "--body", str(upload), "--content-type", FORM_TYPE
        )
        uploading.append(grown.over(size))
        grown = _Grown(running.process)
        whole.append(await _validated(on, running, msgspec.json.decode(reply.text)["id"]))
        memory.append(grown.over(size))
    return [
        median_of("intake, file: validation over parsing alone", ratios(whole, alone), goal=3.0, reach="at most"),
        median_of("intake, file: memory grown over the file", memory, goal=3.0, reach="at most"),
        median_of("intake, upload: memory grown over the file", uploading, goal=3.0, reach="at most"),
    ]


def _parse_lines(intake: Intake, lines: list[bytes]) -> float:
    began = time.perf_counter()
    endpoint = "/v1/chat/completions"
    checker = RequestChecker(intake.rules(Role.INTERNAL, None, endpoint))
    for line in lines:
        checker.check(line)
    return time.perf_counter() - began


async def _validated(on: Stage, running: Gateway, file_id: str) -> float:
    """Seconds from the create call to the moment at which the batch's requests may be claimed."""
    create = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    path = on.folder / "from_file.json"
    path.write_bytes(msgspec.json.encode(create))
    reply = await call("POST", running.url + "/v1/batches", on.key, "--body", str(path))
    began = time.perf_counter() - reply.seconds  # without the start of the client's process
    await on.reached(msgspec.json.decode(reply.text)["id"], "open")
    return time.perf_counter() - began


if __name__ == "__main__":
    main(__doc__, measure, requests=50_000, line_bytes=670, runs=5)
