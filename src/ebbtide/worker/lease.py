"""A worker's lease, on the database's clock: one beat covers everything the worker holds.

A worker that cannot renew in time must treat its lease as lost, even if only the database was unreachable.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import Final

import structlog

from ebbtide import __version__
from ebbtide.batches import workers_store as store
from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database
from ebbtide.worker.life import LifeLocks

log = structlog.get_logger(__name__)

_RETRY_SECONDS: Final = 1.0


class Lease:
    """The registration of one worker process; it gets a new number each time its lease was lost.

    A lease lasts `seconds` and is prolonged every `beat` seconds. `worker_no` is None while there is no lease.
    """

    def __init__(self, database: Database, *, seconds: float, beat: float, locks: LifeLocks | None = None) -> None:
        self._database = database
        self._locks = locks or LifeLocks(None)
        self._seconds = seconds
        self._beat = beat
        self.held_since = 0.0
        self._lapsed = asyncio.Event()
        self.worker_no: int | None = None

    async def register(self) -> int:
        """Begin as a new worker; returns its number. Raises Unavailable."""
        began = time.monotonic()
        async with self._database.transaction() as conn:
            number = await store.register_worker(conn, socket.gethostname(), os.getpid(), __version__, self._seconds)
            started_at = await store.worker_began(conn, number)
        self._locks.hold(number, started_at)
        self.worker_no = number
        self.held_since = began
        self._lapsed.clear()
        return number

    def lapse(self, worker_no: int) -> None:
        """Somebody found out that this worker's lease has lapsed; what concerns an earlier number is old news."""
        if worker_no == self.worker_no:
            self._lapsed.set()

    async def keep(self) -> None:
        """Beat until the lease is lost; then return, with no number any more."""
        worker_no = self.worker_no
        if worker_no is not None:
            await self._keep(worker_no)
        self._locks.release()
        self.worker_no = None

    async def lapse_dead(self) -> int:
        """End the leases of workers on this host that are dead; returns how many. Raises Unavailable."""
        async with self._database.connection() as conn:
            living = await store.living_workers(conn)
            dead = [worker for worker in living if self._locks.is_dead(*worker)]
            for worker_no, _ in dead:
                await store.lapse_worker(conn, worker_no)
        for worker_no, began in dead:
            log.warning("worker_died", worker=worker_no)
            self._locks.forget(worker_no, began)
        return len(dead)

    async def _keep(self, worker_no: int) -> None:
        rest = self._beat
        while time.monotonic() - self.held_since <= self._seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._lapsed.wait()
                    return
            rest = self._beat if await self._prolong(worker_no) else _RETRY_SECONDS

    async def _prolong(self, worker_no: int) -> bool:
        """One beat; False when the database did not answer."""
        began = time.monotonic()
        try:
            async with self._database.transaction() as conn:
                alive = await store.beat(conn, worker_no, self._seconds)
        except Unavailable as error:
            log.warning("beat_missed", worker=worker_no, reason=error.message)
            return False
        if alive:
            self.held_since = began
        else:
            self.lapse(worker_no)
        return True

    async def end(self) -> None:
        """Leave; what should still be held here, such as by a claim that was broken off, others take over at once.

        Raises Unavailable.
        """
        if self.worker_no is None:
            return
        async with self._database.transaction() as conn:
            await store.end_worker(conn, self.worker_no)
        self._locks.release()
