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
from pathlib import Path

import msgspec

from bench.bodies import create_body, request_lines
from bench.export import add_batch
from bench.figures import Figure, main, median_of
from bench.forms import FORM_TYPE, upload_form
from bench.processes import call
from bench.stage import SETTINGS, Stage, stage
from ebbtide.app import Running, Stop, start
from ebbtide.config import Config

TICK = 0.001
_IDLE_SECONDS = 2.0
_SEGMENTS = 400


class Ticker:
    """Ticks every millisecond; `longest` is the worst lateness of a tick since `reset`, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.create_task(self._tick())

    def reset(self) -> None:
        self.longest = 0.0

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
            ticker = Ticker()
            works = _works(on, str(running.url), (body, form))
            stalls: dict[str, list[float]] = {name: [] for name in works}
            for _ in range(options.runs):
                for name, work in works.items():
                    ticker.reset()
                    await work()
                    stalls[name].append(ticker.longest * 1e3)
            ticker.stop()
    idle = stalls.pop("idle")
    return [
        *(median_of(f"event loop: {name}", each, "ms", goal=50.0, reach="at most") for name, each in stalls.items()),
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


def _works(on: Stage, url: str, files: tuple[Path, Path]) -> dict[str, Callable[[], Awaitable[None]]]:
    """What is done while the ticker runs. Clients are processes of their own."""
    body, form = files
    uploaded: list[str] = []

    async def idle() -> None:
        await asyncio.sleep(_IDLE_SECONDS)

    async def create() -> None:
        await call("POST", url + "/v1/batches", on.key, "--body", str(body))

    async def upload() -> None:
        arguments = ("--body", str(form), "--content-type", FORM_TYPE)
        reply = await call("POST", url + "/v1/files", on.key, *arguments)
        uploaded.append(msgspec.json.decode(reply.text)["id"])

    async def validate() -> None:
        path = on.folder / "from_file.json"
        create = {"input_file_id": uploaded[-1], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        path.write_bytes(msgspec.json.encode(create))
        reply = await call("POST", url + "/v1/batches", on.key, "--body", str(path))
        await on.reached(msgspec.json.decode(reply.text)["id"], "open")

    async def export() -> None:
        batch_id = await add_batch(on, ("openai_inline", "sealed"), _SEGMENTS)
        await call("GET", f"{url}/v1/batches/{batch_id}/output.jsonl", on.key)

    async def seal() -> None:
        await on.reached(await add_batch(on, ("openai_file", "sealing"), _SEGMENTS), "sealed")

    return {
        "idle": idle,
        "a direct create": create,
        "an upload": upload,
        "a file's validation": validate,
        "an export": export,
        "sealing": seal,
    }


if __name__ == "__main__":
    main(__doc__, measure, requests=50_000, runs=3)
