"""A file that a worker keeps locked while it lives: others on its host see its death at once, not when its lease ends.

The kernel drops a lock with its process, so a lock that can be had is a dead holder's. A file is named by the running
kernel, the worker and the moment it began: one from another kernel, such as over a network, is never looked at, nor one
of another database. What is not found says nothing; then the lease decides, as between hosts.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from ebbtide.config import Config

log = structlog.get_logger(__name__)
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LifeLocks:
    """The locked files of the workers that share `folder`; where it cannot be used, there are none."""

    def __init__(self, folder: Path | None, boot_id: str | None = None) -> None:
        self._folder = folder
        self._boot_id = boot_id or _read_boot_id()
        self._held: tuple[int, Path] | None = None

    def hold(self, worker_no: int, began: datetime) -> None:
        """Lock the file of a worker of this process, instead of the one held so far."""
        self.release()
        path = self._path(worker_no, began)
        if path is None:
            return
        try:
            _make_private(path.parent)
            # Locked before it has its name: nobody can meet it without its lock.
            unnamed = path.with_name(f".{secrets.token_hex(8)}")
            fd = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._held = fd, path
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        except OSError as error:
            self.release()
            log.info("no_life_lock", folder=str(path.parent), error=str(error))

    def release(self) -> None:
        """This process is no worker any more, or not the one it was."""
        if self._held is not None:
            fd, path = self._held
            self._held = None
            path.unlink(missing_ok=True)
            os.close(fd)

    def is_dead(self, worker_no: int, began: datetime) -> bool:
        """Whether the worker is certain to be dead."""
        path = self._path(worker_no, began)
        if path is None:
            return False
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that was released in good order meanwhile has no name any more: its worker may live on.
            return os.fstat(fd).st_nlink > 0
        except OSError:
            return False
        finally:
            os.close(fd)

    def forget(self, worker_no: int, began: datetime) -> None:
        """A dead worker's death is on record."""
        if (path := self._path(worker_no, began)) is not None:
            with suppress(OSError):
                path.unlink()

    def _path(self, worker_no: int, began: datetime) -> Path | None:
        if self._folder is None or self._boot_id is None:
            return None
        microseconds = (began - _EPOCH) // timedelta(microseconds=1)
        return self._folder / f"{self._boot_id}.{worker_no}.{microseconds}"


def _read_boot_id() -> str | None:
    """Names the running kernel; None where it has no such name."""
    try:
        return _BOOT.read_text().strip() or None
    except OSError:
        return None


def _make_private(folder: Path) -> None:
    """Raises OSError when the folder is somebody else's, or others may write in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this user's own")


def locks_folder(config: Config) -> Path:
    """Where the workers of a host see each other live: beside the embedded server, or in a folder of the user's own."""
    if config.database_url is None:
        return config.data_dir / "workers"
    return Path(tempfile.gettempdir()) / f"ebbtide-workers-{os.geteuid()}"
