"""The files by which workers of one host see that another is dead, and all that is no proof of it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ebbtide.worker.life import LifeLocks

BEGAN = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)
_DIE = """
import os, sys
from datetime import datetime
from pathlib import Path
from ebbtide.worker.life import LifeLocks
LifeLocks(Path(sys.argv[1]), "kernel").hold(7, datetime.fromisoformat(sys.argv[2]))
os.kill(os.getpid(), 9)
"""


def locks(folder: Path, kernel: str = "kernel") -> LifeLocks:
    return LifeLocks(folder / "workers", kernel)


def die(folder: Path) -> None:
    """Let a process hold worker 7's file and be killed."""
    subprocess.run([sys.executable, "-c", _DIE, str(folder / "workers"), BEGAN.isoformat()], check=False)


def test_a_killed_holder_is_dead_and_a_living_one_is_not(tmp_path: Path) -> None:
    die(tmp_path)
    living = locks(tmp_path)
    living.hold(8, BEGAN)
    other = locks(tmp_path)
    assert other.is_dead(7, BEGAN)
    assert not other.is_dead(8, BEGAN)
    assert not living.is_dead(8, BEGAN)
    other.forget(7, BEGAN)
    assert not other.is_dead(7, BEGAN)


def test_what_is_unknown_is_not_dead(tmp_path: Path) -> None:
    die(tmp_path)
    assert not locks(tmp_path, "another kernel").is_dead(7, BEGAN)
    assert not locks(tmp_path).is_dead(7, BEGAN + timedelta(microseconds=1))
    assert not locks(tmp_path).is_dead(6, BEGAN)
    assert not LifeLocks(None).is_dead(7, BEGAN)


def test_a_worker_that_begins_anew_leaves_nothing_behind(tmp_path: Path) -> None:
    held = locks(tmp_path)
    held.hold(1, BEGAN)
    held.hold(2, BEGAN)
    assert not locks(tmp_path).is_dead(1, BEGAN)
    held.release()
    assert list((tmp_path / "workers").iterdir()) == []


def test_a_folder_that_others_may_write_in_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers").chmod(0o777)
    held = locks(tmp_path)
    held.hold(1, BEGAN)
    assert list((tmp_path / "workers").iterdir()) == []
