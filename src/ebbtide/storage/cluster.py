"""One PostgreSQL data folder: made, started, told alive from dead, and stopped. Who may do so when: see embedded.py.

A running server holds the `server` lock, inherited by each of its processes, so a dead, defunct or foreign process id
left in its pid file can never pass for a running server, nor hide one.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.errors import SetupError
from ebbtide.storage.binaries import RunUser
from ebbtide.storage.locks import is_free

PORT = 5432
SOCKET_NAME = f".s.PGSQL.{PORT}"
SUPERUSER = "ebbtide"
LONGEST_SOCKET_PATH = 107
START_TIMEOUT = 600.0  # crash recovery may have much to do
STOP_TIMEOUT = 60.0
QUIT_TIMEOUT = 10.0
ORPHANS_TIMEOUT = 2.0  # for what is left of a killed server to end by itself
_LOG_LIMIT = 16 << 20
_POLL = 0.01
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._@+-]+")  # what needs no quoting in a URL or a PostgreSQL setting
# Detached from whoever starts it; the log is opened by PostgreSQL's own user.
_DETACH = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "synchronous_commit": "on",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",  # containers often have little /dev/shm, and no query of ours gains by it
    "random_page_cost": "1.1",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # a row quoted in an error's detail could hold a caller's data
    "timezone": "UTC",
}


@dataclass(frozen=True)
class Cluster:
    """The data folder inside `folder`, the programs and the user to run it with."""

    folder: Path
    binaries: Path
    major: int
    user: RunUser
    sockets: Path
    fsync: bool = True

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def launch(self, lock: int) -> None:
        """Make the data folder if need be, start the server, and wait until it takes connections.

        The caller holds the start lock, and `lock`, the server's: nothing of an earlier server is left. The server
        keeps it; it is closed here. Raises SetupError in the server's words when it does not come up.
        """
        try:
            self._create(lock)
            self._clear_remains()
            pid = self._detach(lock)
        finally:
            os.close(lock)
        if not wait_until(lambda: self.ready() or not _is_process(pid), START_TIMEOUT) or not self.ready():
            raise SetupError(f"PostgreSQL did not start; the end of {self.log}:\n{self.log_tail()}")

    def _create(self, lock: int) -> None:
        """Make the data folder unless it is there; what a crash left half made is made again.

        initdb keeps the lock too: should we be killed meanwhile, nobody comes in its way before it has ended.
        """
        version = data_version(self.data)
        if version is not None:
            check_version(self.data, version, self.major)
            return
        begun = self.folder / "data.new"
        self.user.run(["rm", "-rf", begun])
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
        if not self.fsync:
            options.append("--no-sync")
        initdb: list[str | Path] = [self.binaries / "bin" / "initdb", "-D", begun, *options]
        self.user.run(initdb, timeout=START_TIMEOUT, keep=(lock,))
        begun.rename(self.data)
        _sync_folder(self.folder)

    def _detach(self, lock: int) -> int:
        """Start the server in the background and return its process id."""
        settings = {**SETTINGS, "unix_socket_directories": f'"{self.sockets}"', "fsync": "on" if self.fsync else "off"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        server: list[str | Path] = [self.binaries / "bin" / "postgres", "-D", self.data, *options]
        return int(self.user.run(["/bin/sh", "-c", _DETACH, "sh", self.log, *server], keep=(lock,)))

    def ready(self) -> bool:
        """Whether a server of this data folder takes connections."""
        lines = self._pid_lines()
        return len(lines) > 7 and lines[7].strip() == "ready" and self._answers()

    def postmaster(self) -> int | None:
        """The process id of the living server of this data folder, None when there is none."""
        lines = self._pid_lines()
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        return pid if self._is_ours(pid) else None

    def stop(self, lock_path: Path) -> None:
        """Stop the server and wait until its last process has gone; open transactions are rolled back.

        Raises SetupError when it does not stop.
        """
        for sign, patience in ((signal.SIGINT, STOP_TIMEOUT), (signal.SIGQUIT, QUIT_TIMEOUT)):
            if is_free(lock_path):
                return
            if (pid := self.postmaster()) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, sign)
            if wait_until(lambda: is_free(lock_path), patience):
                return
        self.quit_orphans()
        if not wait_until(lambda: is_free(lock_path), QUIT_TIMEOUT):
            raise SetupError(f"PostgreSQL in {self.folder} does not stop (process {self.postmaster()})")

    def quit_orphans(self) -> None:
        """End what is left of a server whose first process was killed: each still runs its last query."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and self._is_ours(int(entry.name)):
                with suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGQUIT)

    def log_tail(self, size: int = 2000) -> str:
        """The last lines of the server's log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - size))
                return log.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return "(empty)"

    def _pid_lines(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self.sockets / SOCKET_NAME))
            except OSError:
                return False
            return True

    def _is_ours(self, pid: int) -> bool:
        """PostgreSQL works in its data folder; a process id that was given to another program does not."""
        process = Path("/proc") / str(pid)
        try:
            program = (process / "exe").readlink().name.removesuffix(" (deleted)")
            return program == "postgres" and (process / "cwd").samefile(self.data) and _is_process(pid)
        except OSError:
            return False

    def _clear_remains(self) -> None:
        """PostgreSQL takes any process with the number in its pid file for itself, even one that is defunct."""
        if self.postmaster() is None:
            for path in (
                self.data / "postmaster.pid",
                self.sockets / SOCKET_NAME,
                self.sockets / f"{SOCKET_NAME}.lock",
            ):
                path.unlink(missing_ok=True)
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.replace(self.log.with_suffix(".log.1"))


def data_version(data: Path) -> str | None:
    """The major version that made the data folder, None when there is none."""
    try:
        return (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return None


def check_version(data: Path, version: str, major: int) -> None:
    """Raise SetupError when the data are of another major version than the programs."""
    if version != str(major):
        raise SetupError(
            f"{data} holds the data of PostgreSQL {version}, and this installation brings {major}: "
            "move them with pg_dump and restore, or keep the release that made them"
        )


def socket_folder(folder: Path, user: RunUser) -> Path:
    """Where the server's socket lies: in `folder`, or in a short private folder that a link there names.

    The caller holds the start lock.
    """
    plain = folder / "socket"
    if _fits(plain):
        if plain.is_symlink():
            plain.unlink()
        user.run(["mkdir", "-p", plain])
        return plain
    if plain.is_symlink() and _fits(target := plain.readlink()) and _is_private(target, user):
        return target
    target = Path(tempfile.mkdtemp(prefix="ebbtide-", dir="/tmp"))
    if user.drop:
        os.chown(target, user.uid, user.gid)
    user.run(["ln", "-sfn", target, plain])
    return target


def _fits(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    return _PLAIN_PATH.fullmatch(path) is not None and len(path) <= LONGEST_SOCKET_PATH


def _is_private(folder: Path, user: RunUser) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == user.uid and not status.st_mode & 0o077


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Poll from a thread until `condition` holds; whether it did in `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _is_process(pid: int) -> bool:
    """Whether `pid` runs; one that ended and was not collected by its parent does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
