"""The processes a bench runs: a gateway or worker, an upstream, a client; and what the kernel says they used.

Linux only: CPU time and memory come from /proc, so that a bench sees one process and not its neighbours.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A running program. `said` is its first line."""

    pid: int
    said: str

    def cpu(self) -> float:
        """Seconds of CPU it has used so far, all threads, its children not."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def memory(self) -> int:
        """Bytes resident now."""
        return self._status("VmRSS")

    def open_files(self) -> int:
        """Files and sockets it holds open."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def peak(self) -> int:
        """The most bytes resident since the start or the last `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise LookupError(name)


@asynccontextmanager
async def running(
    arguments: Sequence[str], environ: Mapping[str, str] | None = None, *, quiet: bool = False
) -> AsyncIterator[Process]:
    """`python …` from its first line on; SIGTERM at the end. `quiet` drops what it writes to standard error."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env={**os.environ, **(environ or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL if quiet else None,
        limit=64 * MIB,
    )
    assert child.stdout is not None
    try:
        said = (await child.stdout.readline()).decode()
        if not said:
            raise SystemExit(f"{' '.join(arguments)} ended before it began")
        rest = asyncio.create_task(_discard(child.stdout))
        yield Process(child.pid, said.strip())
        rest.cancel()
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(MIB):
        pass


async def output_of(arguments: Sequence[str]) -> bytes:
    """What `python …` prints."""
    return await _outcome(await _start(arguments), arguments)


async def _start(arguments: Sequence[str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, stdin=pipe, stdout=pipe, limit=64 * MIB
    )


async def _outcome(child: asyncio.subprocess.Process, arguments: Sequence[str]) -> bytes:
    printed, _ = await child.communicate(b"\n")
    if child.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with status {child.returncode}")
    return printed


@dataclass(frozen=True)
class Reply:
    """What `bench.client` got: seconds until the last byte, bytes of the answer, the answer itself if it is short."""

    status: int
    seconds: float
    size: int
    text: str


async def call(method: str, url: str, key: str, *more: str) -> Reply:
    """One request by a client process; `more` are its further arguments. Anything but a 200 ends the bench."""
    return await (await prepared_call(method, url, key, *more))()


async def prepared_call(method: str, url: str, key: str, *more: str) -> Callable[[], Awaitable[Reply]]:
    """The same in two steps: the client process is up when this returns, and sends when its result is called."""
    arguments = ["-m", "bench.client", method, url, "--wait", "--key", key, *more]
    client = await _start(arguments)

    async def send() -> Reply:
        reply = msgspec.json.decode(await _outcome(client, arguments), type=Reply)
        if reply.status != 200:
            raise SystemExit(f"{method} {url} answered {reply.status}: {reply.text[:500]}")
        return reply

    return send


@dataclass(frozen=True)
class UpstreamStats:
    """What the upstream counted: requests, its clock, and the seconds requests were in flight, summed over them."""

    requests: int
    now: float
    busy: float


@dataclass(frozen=True)
class Upstream:
    """The stand-in upstream as a process."""

    url: str

    async def stats(self) -> UpstreamStats:
        async with aiohttp.ClientSession() as http, http.get(self.url + "/stats") as response:
            return msgspec.json.decode(await response.read(), type=UpstreamStats)


@asynccontextmanager
async def upstream(latency: float = 0.0, port: int = 0) -> AsyncIterator[Upstream]:
    async with running(["-m", "bench.upstream", "--latency", str(latency), "--port", str(port)]) as process:
        yield Upstream(process.said)
