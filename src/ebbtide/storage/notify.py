"""Wake-ups across processes through NOTIFY and LISTEN. They make things sooner, never right: every caller also polls.

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


async def notify(connection: Connection, channel: str, payload: str = "") -> None:
    """Wake whoever listens on `channel`, once the transaction of `connection` commits; `payload` under 8,000 bytes."""
    await connection.execute(_SQL["notify"], channel, payload)


class Wake:
    """One subscriber's bell: rung by messages and reconnections, silent again once waited for."""

    def __init__(self, on_payload: Callable[[str], None] | None) -> None:
        self._event = asyncio.Event()
        self._on_payload = on_payload

    def ring(self, payload: str | None = None) -> None:
        """Wake the waiter; `payload` is None when something may have been missed."""
        if payload is not None and self._on_payload is not None:
            self._on_payload(payload)
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

    def subscribe(self, channel: str, on_payload: Callable[[str], None] | None = None) -> Wake:
        """A bell that each message on `channel` rings; `on_payload` is called with its payload first."""
        bell = Wake(on_payload)
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
                await connection.add_listener(channel, self._ring)
                self._ring_all(channel, None)
            heard.update(fresh)
            self.listening.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await self._changed.wait()
            # Fails on a lost connection, and finds out a peer that vanished without a word.
            await connection.execute(_SQL["check_alive"], timeout=CONNECT_TIMEOUT)

    def _look_again(self, connection: object) -> None:
        self._changed.set()

    def _ring(self, connection: object, process: int, channel: str, payload: object) -> None:
        self._ring_all(channel, str(payload))

    def _ring_all(self, channel: str, payload: str | None) -> None:
        for bell in self._bells[channel]:
            bell.ring(payload)


async def _close(connection: Connection) -> None:
    """Part in good order, or at once when the server does not answer."""
    with suppress(TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.close(timeout=CONNECT_TIMEOUT)
