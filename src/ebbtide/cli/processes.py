"""Several gateway processes on one machine: a small parent that binds the socket, starts the children and keeps them.

A child that dies is started again, later and later while it keeps dying. SIGTERM and SIGINT are passed on, and the
parent waits for the children's graceful stop. A child whose parent is gone stops by itself. The first child says what
the gateway is, the parent what concerns all of them: that they are ready, that they stop. Imports nothing heavy.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ebbtide.announcements import STOPPED, STOPPING, ready
from ebbtide.config import Config, as_environment
from ebbtide.listening import listen
from ebbtide.siblings import Folder, ended, family_folder, starting

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_LONG_LIFE: Final = 10.0  # seconds after which a child's end says nothing of the next one's
_LOOK_SECONDS: Final = 0.2  # between looks at whether all are up
_SET_UP_WRONGLY: Final = 2  # a child's exit status for what a new start cannot mend


def run_processes(config: Config) -> int:
    """Run `config.processes` children until a signal ends them. Returns the exit status."""
    listener = None if config.role == "worker" else listen(config.host, config.port)
    alive, death = os.pipe()  # children hold the reading end: it closes when this process is gone, however it went
    port = config.port if listener is None else listener.getsockname()[1]
    fd = None if listener is None else listener.fileno()
    child = replace(config, port=port, socket_fd=fd, parent_fd=alive)
    try:
        with family_folder() as folder:
            return asyncio.run(_Family(replace(child, family_dir=folder), dict(os.environ)).run(config.processes))
    finally:
        os.close(alive)
        os.close(death)
        if listener is not None:
            listener.close()


def end_with_parent(fd: int) -> None:
    """Stop this process as SIGTERM does once the other end of `fd` is closed, that is, once the parent is gone."""
    os.set_inheritable(fd, False)

    def wait() -> None:
        os.read(fd, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()


class _Family:
    def __init__(self, child: Config, environ: Mapping[str, str]) -> None:
        assert child.family_dir is not None
        self._child = child
        self._environ = environ
        self._folder = Folder(child.family_dir)
        self._fds = tuple(fd for fd in (child.socket_fd, child.parent_fd) if fd is not None)
        self._living: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._lost = asyncio.Event()  # a child has ended since it was last said that all are up
        self._has_worked = False
        self._status = 0

    async def run(self, count: int) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask_to_stop)
        for place in range(count):  # before any of them begins, so that the first one knows of the others
            self._folder.write(place, starting())
        telling = asyncio.create_task(self._tell_ready())
        await asyncio.gather(*(self._keep(place) for place in range(count)))
        telling.cancel()
        if self._status != _SET_UP_WRONGLY:
            _say(STOPPED)
        return self._status

    async def _tell_ready(self) -> None:
        """Say when all children are up, and again when one that was lost has been replaced."""
        while True:
            beats = self._folder.read().values()
            if all(beat.state == "up" for beat in beats):
                _say(ready(tuple(beat.pid for beat in beats)))
                await self._lost.wait()
            self._lost.clear()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _keep(self, place: int) -> None:
        """Have one child at all times until the stop."""
        loop = asyncio.get_running_loop()
        pause, quiet = _FIRST_PAUSE, place > 0
        while not self._stopping.is_set():
            started = loop.time()
            status = await self._run_child(place, quiet)
            has_worked = self._folder.read()[place].state in ("up", "stopping")
            self._has_worked, quiet = self._has_worked or has_worked, quiet or has_worked
            self._folder.write(place, ended(status))
            self._lost.set()
            if self._ends_all(status):
                return
            pause = _FIRST_PAUSE if loop.time() - started >= _LONG_LIFE else pause
            print(f"ebbtide: a process ended with status {status}; starting another in {pause:g} s", file=sys.stderr)
            await self._rest(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_child(self, place: int, quiet: bool) -> int:
        """Start a child and wait for its end; the exit status, negative for a signal."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "ebbtide", "serve"),
            env={**self._environ, **as_environment(replace(self._child, place=place, quiet=quiet))},
            pass_fds=self._fds,
            stdin=asyncio.subprocess.DEVNULL,
            process_group=0,  # Ctrl-C reaches the parent alone, so that a child is told once
        )
        self._living.add(process)
        if self._stopping.is_set():
            _tell(process)
        status = await process.wait()
        self._living.discard(process)
        return status

    def _ends_all(self, status: int) -> bool:
        """Whether this end of a child is the end of the deployment, and not just of the child."""
        if self._stopping.is_set():
            # A child that had not yet come so far as to listen for the signal ended by it.
            self._status = self._status or (0 if status in (0, -signal.SIGTERM) else 1)
            return True
        if status == _SET_UP_WRONGLY and not self._has_worked:
            self._status = status
            self._stop()
            return True
        return False

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _ask_to_stop(self) -> None:
        if not self._stopping.is_set():
            _say(STOPPING)
        self._stop()

    def _stop(self) -> None:
        """Tell the children to stop; told again, they stop at once."""
        self._stopping.set()
        for process in self._living:
            _tell(process)


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # whoever read it may have gone
        print(line, flush=True)


def _tell(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
