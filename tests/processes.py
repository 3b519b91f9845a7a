"""Real `ebbtide serve` processes for tests: on free ports, with their output kept, and none of them left behind.

`async with Processes(folder, models) as processes:` then `gateway = await processes.start()`, `gateway.url`,
`gateway.admin_key`. Everything started here, children included, is killed by its process id on the way out.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import aiohttp
from tests.gateway import Answer, until

# A lost worker is noticed after seconds instead of minutes. The lease stands a busy machine.
SHORT_LEASE: Mapping[str, str] = {"EBBTIDE_WORKER_LEASE_SECONDS": "3", "EBBTIDE_WORKER_HEARTBEAT_SECONDS": "0.5"}

_URL = re.compile(r"answers at (http://\S+)")
_KEY = re.compile(r"shown only now: (ebb-\S+)")


class GatewayProcess:
    """One `ebbtide serve`, by its process id."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, http: aiohttp.ClientSession) -> None:
        self._process = process
        self._output = output
        self._http = http
        self.url = ""
        self.key = ""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        """Everything it printed and logged so far."""
        return self._output.read_text(errors="replace")

    @property
    def admin_key(self) -> str | None:
        """The first administrator's key, if this process made it."""
        found = _KEY.search(self.log)
        return found[1] if found else None

    def children(self) -> list[int]:
        return children_of(self.pid)

    async def ready(self, within: float = 60.0) -> None:
        """Wait until it says where it answers and calls itself ready. Raises RuntimeError with its log otherwise."""
        try:
            await until(self._says_url, within=within)
            await until(self._is_ready, within=within)
        except TimeoutError:
            raise RuntimeError(f"the gateway does not become ready:\n{self.log}") from None

    async def _says_url(self) -> bool:
        if self.status is not None:
            raise RuntimeError(f"the gateway ended with status {self.status}:\n{self.log}")
        found = _URL.search(self.log)
        self.url = found[1] if found else ""
        return found is not None

    async def _is_ready(self) -> bool:
        try:
            return (await self.call("GET", "/health/ready", key=None)).status == 200
        except aiohttp.ClientError:
            return False

    async def call(
        self, method: str, path: str, *, key: str | None = "", headers: Mapping[str, str] | None = None, **sent: Any
    ) -> Answer:
        """One request, with `self.key` unless told otherwise (None: with no key)."""
        own = {} if key is None else {"Authorization": f"Bearer {key or self.key}"}
        async with self._http.request(method, self.url + path, headers=own | dict(headers or {}), **sent) as response:
            return Answer(response.status, response.headers, await response.read())

    async def create(self, requests: list[dict[str, Any]], **more: Any) -> str:
        """The id of a new batch of direct requests."""
        answer = await self.call("POST", "/v1/batches", json={"requests": requests} | more)
        assert answer.status == 200, answer.body
        return str(answer.json["id"])

    async def batch(self, batch_id: str) -> Any:
        answer = await self.call("GET", f"/v1/batches/{batch_id}")
        assert answer.status == 200, answer.body
        return answer.json

    async def ended(self, batch_id: str, within: float = 60.0) -> Any:
        """The batch once its status is a final one."""

        async def final() -> Any:
            batch = await self.batch(batch_id)
            return batch if batch["status"] in ("completed", "failed", "expired", "cancelled") else None

        try:
            return await until(final, within=within, every=0.1)
        except TimeoutError:
            raise AssertionError(f"not ended: {await self.batch(batch_id)}\n{self.log}") from None

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    async def wait(self, within: float = 60.0) -> int:
        """The exit status, once it has ended by itself."""
        return await asyncio.to_thread(self._process.wait, within)

    async def stop(self, within: float = 60.0) -> int:
        """SIGTERM, and wait for the exit status."""
        self.terminate()
        return await self.wait(within)

    def kill(self) -> None:
        """SIGKILL; it is gone when this returns."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def clear_away(self) -> None:
        """End it and whatever it started, however it stands."""
        children = self.children()
        self.kill()
        for pid in children:
            send(pid, signal.SIGKILL)


class Processes:
    """Starts gateways that share a models file, a place for their output and an environment."""

    def __init__(self, folder: Path, models: Path, **environ: str) -> None:
        self._folder = folder
        self._models = models
        self._environ = environ
        self._all: list[GatewayProcess] = []
        self._outputs: list[IO[bytes]] = []
        self._alive: tuple[int, int] | None = None
        self._http: aiohttp.ClientSession | None = None
        self.key = ""

    async def __aenter__(self) -> Processes:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=180))
        self._alive = os.pipe()  # a gateway stops when the other end is closed, even by a killed test run
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for gateway in self._all:
            gateway.clear_away()
        for output in self._outputs:
            output.close()
        if self._alive is not None:
            for end in self._alive:
                os.close(end)
        if self._http is not None:
            await self._http.close()

    def launch(self, *flags: str, **environ: str) -> GatewayProcess:
        """A process that has begun to start; see `start`."""
        assert self._http is not None
        assert self._alive is not None
        path = self._folder / f"gateway-{len(self._all)}.log"
        output = path.open("wb")
        self._outputs.append(output)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("EBBTIDE_", "BATCH_"))}
        process = subprocess.Popen(
            [sys.executable, "-m", "ebbtide", "serve", "--port", "0", "--models", str(self._models), *flags],
            env={**own, "EBBTIDE_PARENT_FD": str(self._alive[0]), **self._environ, **environ},
            pass_fds=(self._alive[0],),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        gateway = GatewayProcess(process, path, self._http)
        self._all.append(gateway)
        return gateway

    async def start(self, *flags: str, **environ: str) -> GatewayProcess:
        """A gateway that answers. The first one to do so makes the administrator, whose key all of them then use."""
        gateway = self.launch(*flags, **environ)
        await gateway.ready()
        self.key = self.key or gateway.admin_key or ""
        gateway.key = self.key
        return gateway


class PostgresProcesses:
    """The processes of an embedded PostgreSQL, found by the data folder in which they work."""

    def __init__(self, data_dir: Path) -> None:
        self._data = data_dir / "postgres" / "data"
        self.url = f"postgresql://ebbtide@/postgres?host={data_dir / 'postgres' / 'socket'}&port=5432"

    def pids(self) -> list[int]:
        """The first process first, if it lives."""
        found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and self._works_in(entry)]
        return sorted(found, key=lambda pid: (_parent(pid) in found, pid))

    def _works_in(self, process: Path) -> bool:
        try:
            program = (process / "exe").readlink().name
            return program.startswith("postgres") and (process / "cwd").samefile(self._data)
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            send(pid, number)

    def kill(self) -> None:
        """SIGKILL to every process until none is left; the first one goes first, so that it starts no new ones."""
        while pids := self.pids():
            for pid in pids:
                send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def holds(condition: Callable[[], bool], within: float = 30.0) -> None:
    """Wait until `condition()` is true. Raises TimeoutError."""

    async def ask() -> bool:
        return condition()

    await until(ask, within=within, every=0.01)
