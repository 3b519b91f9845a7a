"""Other gateways for comparison: LiteLLM's proxy from PyPI and Portkey's from npm, each in a folder of its own.

The folders lie in the user's cache (`ebbtide-bench`), outside this project, and are made once. A gateway that cannot be
had or does not start is left out of the comparison with a line that says so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.bodies import MODEL
from bench.processes import Process

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ebbtide-bench"
_MASTER_KEY = "sk-bench-0123456789abcdef0123456789abcdef"
_PATIENCE = 120.0


class Missing(Exception):
    """A gateway that cannot be had here; the message says why."""


@dataclass(frozen=True)
class Peer:
    """A gateway that is up, and what it wants to be sent."""

    url: str
    process: Process
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Program:
    """How a gateway is started."""

    arguments: Sequence[str]
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def litellm(upstream: str) -> AsyncIterator[Peer]:
    """LiteLLM's proxy with one worker and no database. Raises Missing."""
    folder, port = _CACHE / "litellm", _free_port()
    if not (folder / "bin" / "litellm").exists():
        await _install([sys.executable, "-m", "venv", str(folder)])
        await _install([str(folder / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"])
    config = folder / "bench.yaml"
    config.write_text(
        f"model_list:\n- model_name: {MODEL}\n"
        f"  litellm_params: {{model: openai/{MODEL}, api_base: '{upstream}/v1', api_key: sk-nothing}}\n"
        f"litellm_settings: {{telemetry: false}}\ngeneral_settings: {{master_key: {_MASTER_KEY}}}\n"
    )
    flags = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    program = _Program([str(folder / "bin" / "litellm"), *flags], folder, {"LITELLM_LOCAL_MODEL_COST_MAP": "True"})
    async with _serving(program, f"http://127.0.0.1:{port}", "/health/liveliness") as process:
        yield Peer(f"http://127.0.0.1:{port}", process, {"Authorization": f"Bearer {_MASTER_KEY}"})


@asynccontextmanager
async def portkey(upstream: str) -> AsyncIterator[Peer]:
    """Portkey's gateway, which knows no accounts: each request says where it goes. Raises Missing."""
    folder, port = _CACHE / "portkey", _free_port()
    package = folder / "node_modules" / "@portkey-ai" / "gateway"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("there is no Node.js here")
    if not package.exists():
        folder.mkdir(parents=True, exist_ok=True)
        await _install([npm, "install", "--no-fund", "--no-audit", "--prefix", str(folder), "@portkey-ai/gateway"])
    program = _Program([node, str(package / "build" / "start-server.js"), f"--port={port}", "--headless"], folder)
    headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{upstream}/v1"}
    async with _serving(program, f"http://127.0.0.1:{port}", "/") as process:
        yield Peer(f"http://127.0.0.1:{port}", process, headers | {"Authorization": "Bearer sk-nothing"})


async def entered(stack: AsyncExitStack, name: str, upstream: str) -> Peer | None:
    """The gateway of this name, up until the stack is left; None, with a line why, where it cannot be had."""
    try:
        return await stack.enter_async_context({"LiteLLM": litellm, "Portkey": portkey}[name](upstream))
    except Missing as why:
        print(f"  {name} is left out: {why}", flush=True)
        return None


async def _install(arguments: Sequence[str]) -> None:
    quiet = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(*arguments, stdout=quiet, stderr=quiet)
    if await child.wait():
        raise Missing(f"{Path(arguments[0]).name} {' '.join(arguments[1:3])} … failed; is the registry away?")


@asynccontextmanager
async def _serving(program: _Program, url: str, path: str) -> AsyncIterator[Process]:
    quiet = asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_exec(
        *program.arguments, cwd=program.folder, env={**os.environ, **program.environ}, stdout=quiet, stderr=quiet
    )
    try:
        await _answers(child, url + path)
        yield Process(child.pid, url)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _answers(child: asyncio.subprocess.Process, url: str) -> None:
    """Wait until something answers there. Raises Missing."""
    async with aiohttp.ClientSession() as http:
        try:
            async with asyncio.timeout(_PATIENCE):
                while child.returncode is None:
                    try:
                        async with http.get(url):
                            return
                    except aiohttp.ClientError:
                        await asyncio.sleep(0.2)
        except TimeoutError:
            raise Missing(f"it did not answer within {_PATIENCE:.0f} seconds") from None
    raise Missing(f"it ended with status {child.returncode}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
