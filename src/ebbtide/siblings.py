"""What the processes behind one port tell each other: one small file each, in a folder their parent made.

A process writes its own file about once a second; for one that has not begun or has ended, the parent does. Files
rather than the database, so that they tell the truth while the database is away. Imports nothing heavy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

SILENT_SECONDS: Final = 10.0
Sample: TypeAlias = tuple[str, tuple[str, ...], float]
"""A gauge's name, the values of its labels in order, and its value."""


class Beat(msgspec.Struct, frozen=True):
    """How a process stood at `at`, on the monotonic clock, which all processes of a machine share.

    `troubles` holds what is wrong, by the check that found it; `loops` when each loop last began a round.
    """

    pid: int
    state: Literal["starting", "up", "stopping", "ended"]
    at: float
    troubles: dict[str, str] = {}
    loops: dict[str, float] = {}
    gauges: list[Sample] = []

    def is_alive(self, now: float) -> bool:
        """Whether what it told still holds."""
        return self.state in ("up", "stopping") and now - self.at <= SILENT_SECONDS

    def trouble(self, now: float) -> str | None:
        """What keeps the process from being ready, in words."""
        if self.state == "starting":
            return "is starting"
        if self.state == "ended":
            return self.troubles.get("process", "has ended")
        if now - self.at > SILENT_SECONDS:
            return f"has been silent for {now - self.at:.0f} seconds"
        if self.state == "stopping":
            return "is stopping"
        return "; ".join(f"{name}: {words}" for name, words in self.troubles.items()) or None


class Folder:
    """The files, one for each place (0, 1, …) that a process of the family takes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, place: int, beat: Beat) -> None:
        """Whole or not at all, for whoever reads meanwhile."""
        fresh = self.path / f"process-{place}.{os.getpid()}.new"
        fresh.write_bytes(msgspec.json.encode(beat))
        fresh.replace(self.path / f"process-{place}.json")

    def read(self) -> Mapping[int, Beat]:
        """Every process's last word, by its place."""
        found = (path for path in self.path.glob("process-*.json"))
        return dict(sorted((_place(path), msgspec.json.decode(path.read_bytes(), type=Beat)) for path in found))


def _place(path: Path) -> int:
    return int(path.stem.removeprefix("process-"))


@contextmanager
def family_folder() -> Iterator[Path]:
    """A folder of this family's own, gone with it."""
    path = Path(tempfile.mkdtemp(prefix="ebbtide-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def starting() -> Beat:
    """The word for a process that is about to begin."""
    return Beat(0, "starting", time.monotonic())


def ended(status: int) -> Beat:
    """The word for a process that is no more."""
    return Beat(0, "ended", time.monotonic(), {"process": f"ended with status {status}; another is to be started"})
