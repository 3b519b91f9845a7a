"""`ebbtide serve --processes N` with real processes: one socket, a dead child replaced, everyone gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

pytestmark = pytest.mark.processes


class Family:
    """A parent and what its children print. Standard output ends when the last of them has gone."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self, words: str) -> str:
        """The next line that holds `words`."""
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            if words in line:
                return line
        raise AssertionError(f"the output ended before {words!r}")

    async def until(self, words: str) -> str:
        """What is printed up to the next line that holds `words`, with it."""
        assert self.process.stdout is not None
        return (await self.process.stdout.readuntil(words.encode())).decode()

    async def rest(self) -> str:
        """What is printed until everybody has gone."""
        assert self.process.stdout is not None
        return (await self.process.stdout.read()).decode()

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.asynccontextmanager
async def family(database_url: str, listen_url: str, *arguments: str) -> AsyncIterator[Family]:
    """The command in a process of its own; its children do not outlive it."""
    environ = {**os.environ, "EBBTIDE_DATABASE_URL": database_url, "EBBTIDE_DATABASE_LISTEN_URL": listen_url}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ebbtide", *arguments),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Family(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def healthy(url: str) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
        return answer.status == 200


def pids(ready: str) -> list[int]:
    """Those that a parent names when all are up."""
    [found] = re.findall(r"^Ready: 2 processes, pid (\d+, \d+)\.", ready)
    return [int(pid) for pid in found.split(", ")]


async def test_a_dead_child_is_replaced_and_sigterm_ends_all(database_url: str, listen_url: str) -> None:
    async with family(database_url, listen_url, "serve", "--processes", "2", "--port", "0") as running:
        [url] = re.findall(r"http://\S+", await running.line("answers at"))
        before = pids(await running.line("Ready"))
        assert sorted(before) == sorted(running.children())
        assert await healthy(url)
        os.kill(before[0], signal.SIGKILL)
        assert "status -9; starting another" in await running.line("a process ended")
        assert await healthy(url)
        after = pids(await running.line("Ready"))
        assert sorted(after) == sorted(running.children())
        assert after[1] == before[1]
        assert after[0] != before[0]
        running.process.terminate()
        rest = await running.rest()
        assert await running.process.wait() == 0
    assert "Traceback" not in rest
    assert "answers at" not in rest
    assert rest.count("Stopping: ") == rest.count("Stopped.") == 1


async def test_what_a_gateway_is_and_its_secrets_are_said_once(database_url: str, listen_url: str) -> None:
    async with family(database_url, listen_url, "serve", "--processes", "2", "--port", "0") as running:
        said = await running.until("Ready")
        running.process.terminate()
        said += await running.rest()
    for words in ("answers at", "console:", "data:", "shown only now", "set-up code", "Ready", "Stopping", "Stopped."):
        assert said.count(words) == 1, said


async def test_children_do_not_outlive_a_killed_parent(database_url: str, listen_url: str) -> None:
    async with family(database_url, listen_url, "worker", "--processes", "2") as running:
        await running.line("works on batches")
        await running.line("Ready")
        running.process.kill()
        await running.rest()  # ends only with the last child


async def test_a_wrong_set_up_ends_all(database_url: str, listen_url: str, tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("models: 5\n")
    async with family(
        database_url, listen_url, "serve", "--processes", "2", "--port", "0", "--models", str(models)
    ) as it:
        said = await it.rest()
        assert await it.process.wait() == 2
    assert "models.yaml, line 1" in said
    assert "starting another" not in said
    assert "Traceback" not in said


async def test_a_taken_port_is_said_before_any_child_starts(database_url: str, listen_url: str) -> None:
    async with family(database_url, listen_url, "serve", "--processes", "1", "--port", "0", "--role", "api") as first:
        [port] = re.findall(r"http://\S+:(\d+)", await first.line("answers at"))
        async with family(database_url, listen_url, "serve", "--processes", "2", "--port", port) as second:
            assert f"Cannot listen on 127.0.0.1 port {port}" in await second.rest()
            assert await second.process.wait() == 2
