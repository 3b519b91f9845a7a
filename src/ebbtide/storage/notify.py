"""Wake-ups across processes through NOTIFY and LISTEN.

They only save waiting; nothing depends on them for correctness, since every caller also polls.

LISTEN needs a connection of its own that stays on one server, so through a transaction pooler it does not work; there
the listener says so once and wakes nobody. After each reconnection everyone is woken, since a message may be lost.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import asyncpg
import structlog

from ebbtide.errors import EbbtideError
from ebbtide.storage.pool import CONNECT_TIMEOUT, Connection, Database, connect_alone, runs_elsewhere, translated
from ebbtide.storage.queries import load_queries

FIRST_DELAY = 0.5
LONGEST_DELAY = 15.0
# How often a silent connection is asked whether it still lives.
CHECK_INTERVAL = 30.0

_SQL = load_queries("ebbtide.storage", "notify.sql")

log = structlog.get_logger(__name__)


async def notify(connection: Connection, channel: str) -> None:
    """Wake whoever listens on `channel`, once the transaction of `connection` commits."""
    await connection.execute(_SQL["notify"], channel)


class Wake:
    """One subscriber's bell: rung by messages and reconnections, silent again once waited for.

    `on_news` is called for those first, and not when the subscriber itself rings.
    """

    def __init__(self, on_news: Callable[[], None] | None = None) -> None:
        self._event = asyncio.Event()
        self._on_news = on_news

    def tell(self) -> None:
        """Something was said, or may have been missed: wake the waiter."""
        if self._on_news is not None:
            self._on_news()
        self.ring()

    def ring(self) -> None:
        """Wake the waiter."""
        self._event.set()

    async def wait(self, timeout: float) -> bool:
        """True once woken, also before the call; False after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken


class Listener:
    """Listens for a process: `async with Listener(database) as listener`, then `subscribe` at any time.

    `listening` is set while messages come through, `stopped` once it is clear that they cannot. It needs no database
    to begin; it connects when there is one.
    """

    def __init__(self, database: Database) -> None:
        self._url = database.listen_url
        self._bells: defaultdict[str, list[Wake]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __aenter__(self) -> Listener:
        self._task = asyncio.create_task(self._run(), name="listener")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def subscribe(self, channel: str, on_news: Callable[[], None] | None = None) -> Wake:
        """A bell that each message on `channel` rings, and each reconnection; `on_news` is called first."""
        bell = Wake(on_news)
        self._bells[channel].append(bell)
        self._changed.set()
        return bell

    async def _run(self) -> None:
        """Listen again after every loss; end only where LISTEN cannot work."""
        delay = FIRST_DELAY
        while True:
            try:
                await self._listen()
            except (EbbtideError, asyncpg.PostgresError) as error:
                delay = FIRST_DELAY if self.listening.is_set() else min(delay * 2, LONGEST_DELAY)
                self.listening.clear()
                log.warning("listen_failed", error=str(error.__cause__ or error), retry_in=delay)
            else:
                log.warning("listen_unavailable", reason="a pooler in transaction mode answers; polling instead")
                self.stopped.set()
                return
            await asyncio.sleep(delay)

    async def _listen(self) -> None:
        """Listen on one connection until it is lost, which raises; returns where the way leads through a pooler."""
        with translated(None):
            connection = await connect_alone(self._url)
        try:
            with translated(connection):
                if not await runs_elsewhere(connection):
                    await self._follow(connection)
        finally:
            await _close(connection)

    async def _follow(self, connection: Connection) -> NoReturn:
        connection.add_termination_listener(self._look_again)
        heard: set[str] = set()
        while True:
            self._changed.clear()
            fresh = [channel for channel in self._bells if channel not in heard]
            for channel in fresh:
                await connection.add_listener(channel, self._heard)
                self._tell_all(channel)
            heard.update(fresh)
            self.listening.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await self._changed.wait()
            # Fails on a lost connection, and finds out a peer that vanished without a word.
            await connection.execute(_SQL["check_alive"], timeout=CONNECT_TIMEOUT)

    def _look_again(self, connection: object) -> None:
        self._changed.set()

    def _heard(self, connection: object, process: int, channel: str, payload: object) -> None:
        self._tell_all(channel)

    def _tell_all(self, channel: str) -> None:
        for bell in self._bells[channel]:
            bell.tell()


async def _close(connection: Connection) -> None:
    """Part in good order, or at once when the server does not answer."""
    with suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.close(timeout=CONNECT_TIMEOUT)
