"""What this process takes of the machine: memory, open files and sockets, threads, tasks. Reads /proc where it is."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Final

from ebbtide.records import metrics
from ebbtide.siblings import Sample

_PROC: Final = Path("/proc/self")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def footprint() -> list[Sample]:
    """The samples of now; those that only Linux tells are left out elsewhere."""
    return [
        (metrics.TASKS, (), len(asyncio.all_tasks())),
        (metrics.THREADS, (), threading.active_count()),
        *_from_proc(),
    ]


def _from_proc() -> list[Sample]:
    try:
        pages = int((_PROC / "statm").read_text().split()[1])
        files = sum(1 for _ in (_PROC / "fd").iterdir())
    except OSError:
        return []
    return [(metrics.MEMORY, (), pages * _PAGE), (metrics.OPEN_FILES, (), files)]
