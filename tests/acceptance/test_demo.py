"""`make demo` from its first run to the next one after it was killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def demo(data_dir: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EBBTIDE_")}
    environ |= {"EBBTIDE_DATA_DIR": str(data_dir), "EBBTIDE_PORT": str(port), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(ROOT / "demo/run.py")]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def until_it_serves(process: subprocess.Popen[str]) -> str:
    """Everything said until the demo tells what to try next."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith("Your own models instead"):
            return said
    raise AssertionError(said)


def key_in(said: str) -> str:
    found = re.search(r"EBBTIDE_API_KEY=(ebb-\S+)", said)
    assert found, said
    return found[1]


def sign_in(port: int, said: str) -> int:
    """The status of signing in to the console as the demo says one can."""
    found = re.search(rf"http://127.0.0.1:{port}/console +name: (\S+) +password: (\S+)", said)
    assert found, said
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/session",
        data=json.dumps({"name": found[1], "password": found[2]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


def status(port: int, key: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(answer.status)


def test_the_demo_runs_again_after_it_was_killed(data_dir: Path, port: int) -> None:
    with demo(data_dir, port) as process:
        said = until_it_serves(process)
        key = key_in(said)
        assert "200: 200 completed, 0 failed" in said
        assert status(port, key) == 200
        assert sign_in(port, said) == 200
        process.kill()
        process.wait()
    wait_until_free(port)
    with demo(data_dir, port) as process:
        said = until_it_serves(process)
        assert key_in(said) == key
        assert sign_in(port, said) == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    with pytest.raises(urllib.error.URLError):
        status(port, key)
    assert not (data_dir / "postgres/data/postmaster.pid").exists()


def wait_until_free(port: int) -> None:
    """The gateway of a killed demo stops by itself, and its port is free then."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"port {port} is still taken")


def test_a_port_that_is_taken_is_named(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with demo(data_dir, port) as process:
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"port {port} cannot be had" in said
    assert f"EBBTIDE_PORT={port + 1} make demo" in said
