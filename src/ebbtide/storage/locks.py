"""Lock files: the kernel drops a lock with the last process that holds it, however that dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_free(path: Path) -> bool:
    """Whether nobody holds the lock file at `path`."""
    with held(path, fcntl.LOCK_EX | fcntl.LOCK_NB) as lock:
        return lock is not None


def open_lock(path: Path) -> int:
    """A descriptor of its own for the lock file at `path`."""
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def try_lock(descriptor: int, mode: int) -> bool:
    """Take the lock without waiting; whether it was to be had."""
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def held(path: Path, mode: int) -> Iterator[int | None]:
    """Hold the lock file for the block, if it is to be had at once; None otherwise."""
    descriptor = open_lock(path)
    try:
        yield descriptor if try_lock(descriptor, mode) else None
    finally:
        os.close(descriptor)
