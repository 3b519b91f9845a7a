"""How long anything holds a gateway's event loop: a ticker inside the process, while big work is done.

A create of 50,000 requests, the upload and the validation of such a file, an export, sealing. A gap between two ticks
is a stall; the machine's own stalls show in the row of an idle gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.bodies import create_body, request_lines
from bench.export import add_batch
from bench.figures import Figure, main, median_of
from bench.forms import FORM_TYPE, upload_form
from bench.processes import prepared_call
from bench.stage import SETTINGS, Stage, stage
from ebbtide.app import start, tune_collector
from ebbtide.config import Config
from ebbtide.ending import Stop
from ebbtide.greeting import Running

T = TypeVar("T")
TICK = 0.001
_CALM_SECONDS = 0.5
_IDLE_SECONDS = 2.0
_SEGMENTS = 400


class Ticker:
    """Ticks every millisecond; `longest` is the worst lateness of a tick so far, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            self.longest = max(self.longest, time.perf_counter() - began - TICK)

    def stop(self) -> None:
        self._task.cancel()


async def measure(options: argparse.Namespace) -> list[Figure]:
    lines = request_lines(options.requests, 580)
    async with stage(fsync=False) as on:
        body, form = on.folder / "create.json", on.folder / "upload.form"
        body.write_bytes(create_body(lines))
        form.write_bytes(upload_form(b"\n".join(lines)))
        async with _gateway(on, on.models()) as running:
            tune_collector()
            ticker = Ticker()
            works = _Works(on, str(running.url), body, form, ticker, {})
            for _ in range(options.runs):
                await works.all()
            ticker.stop()
    idle = works.stalls.pop("idle")
    return [
        *(
            median_of(f"event loop: {name}", each, "ms", goal=50.0, reach="at most")
            for name, each in works.stalls.items()
        ),
        median_of("an idle gateway on this machine", idle, "ms"),
    ]


@asynccontextmanager
async def _gateway(on: Stage, models: Path) -> AsyncIterator[Running]:
    """A whole gateway in this event loop."""
    config = Config(data_dir=on.folder, database_url=on.database.url, port=0, role="all", models=models)
    stop = Stop()
    environ = SETTINGS | {"BATCH_MODEL_CONCURRENCY": "0", "BATCH_MAX_BODY_MB": "64"}
    async with start(config, environ, stop) as running:
        yield running
        stop.ask()


@dataclass(frozen=True)
class _Works:
    """What is done while the ticker runs. Clients are processes of their own, started before it counts."""

    on: Stage
    url: str
    body: Path
    form: Path
    ticker: Ticker
    stalls: dict[str, list[float]]

    async def all(self) -> None:
        await self._during("idle", lambda: asyncio.sleep(_IDLE_SECONDS))
        await self._request("a direct create", "POST", "/v1/batches", "--body", str(self.body))
        form = ("--body", str(self.form), "--content-type", FORM_TYPE)
        file_id = await self._request("an upload", "POST", "/v1/files", *form)
        await self._validate(file_id)
        direct_id = await add_batch(self.on, ("openai_inline", "sealed"), _SEGMENTS)
        await self._request("an export", "GET", f"/v1/batches/{direct_id}/output.jsonl")
        filed_id = await add_batch(self.on, ("openai_file", "sealing"), _SEGMENTS)
        await self._during("sealing", lambda: self.on.reached(filed_id, "sealed"))

    async def _validate(self, file_id: str) -> None:
        create = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        path = self.on.folder / "from_file.json"
        path.write_bytes(msgspec.json.encode(create))
        send = await prepared_call("POST", self.url + "/v1/batches", self.on.key, "--body", str(path))

        async def create_and_wait() -> None:
            await self.on.reached(msgspec.json.decode((await send()).text)["id"], "open")

        await self._during("a file's validation", create_and_wait)

    async def _request(self, name: str, method: str, path: str, *more: str) -> str:
        """The id that the answer names, if it is JSON."""
        send = await prepared_call(method, self.url + path, self.on.key, *more)
        text = (await self._during(name, send)).text
        return str(msgspec.json.decode(text)["id"]) if text.startswith("{") else ""

    async def _during(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(_CALM_SECONDS)
        self.ticker.longest = 0.0
        result = await work()
        self.stalls.setdefault(name, []).append(self.ticker.longest * 1e3)
        return result


if __name__ == "__main__":
    main(__doc__, measure, requests=50_000, runs=3)
