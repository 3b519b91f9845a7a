"""How many interactive requests of an account run at once, exactly, over all processes.

A slot is needed for each. A process holds slots under a lease on the database's clock; a request that fits them asks
nobody. Else one transaction under the account's row asks for more; before a refusal, other processes are asked for
their idle ones. A process that dies loses its slots with its lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from ebbtide.duties import Duty
from ebbtide.errors import EbbtideError, LimitReached, Unavailable
from ebbtide.proxy import slots_store as store
from ebbtide.proxy.pool import Pool
from ebbtide.storage.notify import Listener, notify
from ebbtide.storage.pool import Database

CHANNEL: Final = "ebbtide_slots"
LEASE: Final = 10.0
IDLE: Final = 1.0
_RENEW: Final = 3.0
_PATIENCE: Final = 0.1
_POLL: Final = 0.03
_RETRY: Final = 1.0


class Slots:
    """One process's slots, by account."""

    def __init__(self, database: Database, process: str, *, lease: float = LEASE) -> None:
        self._database = database
        self._process = process
        self._lease = lease
        self._pools: dict[str, Pool] = {}

    async def enter(self, account_id: str, cap: int) -> Pool:
        """Wait for a slot; give it back with `leave`. Raises LimitReached, Unavailable."""
        now = _now()
        pool = self._pools.get(account_id)
        if pool is None:
            pool = self._pools[account_id] = Pool(account_id, looked_at=now)
        pool.cap = cap
        if pool.take(now):
            return pool
        if pool.in_use >= cap:
            raise _refusal(cap)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pool.waiting.append(waiter)
        if pool.asker is None:
            pool.asker = asyncio.create_task(self._ask(pool))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.leave(pool)
            raise
        return pool

    def leave(self, pool: Pool) -> None:
        """The request has ended."""
        pool.free(_now())

    def duty(self, listener: Listener) -> Duty:
        """Prolonging leases, and giving back what is idle: after a second, or at once where another process asks."""
        bell = listener.subscribe(CHANNEL, self._tell_askers)
        return Duty("interactive slots", self.run_once, IDLE, bell, steady=True, at_end=self.end)

    async def run_once(self, now: datetime) -> int:
        """Returns how many slots were given back. Raises Unavailable."""
        pools = [pool for pool in self._pools.values() if not pool.lock.locked()]
        idle = [pool.account_id for pool in pools if pool.idle]
        wanted: set[str] = set()
        if idle:
            async with self._database.connection() as conn:
                wanted = await store.wanted_elsewhere(conn, idle, self._process)
        return await self._keep([pool for pool in pools if not pool.lock.locked()], wanted)

    async def end(self, now: datetime) -> None:
        """Give everything back. Raises Unavailable."""
        self._pools.clear()
        async with self._database.transaction() as conn:
            await store.end_slots(conn, self._process)
            await notify(conn, CHANNEL)

    async def _keep(self, pools: Iterable[Pool], wanted: set[str]) -> int:
        now, given = _now(), 0
        kept: list[Pool] = []
        for pool in pools:
            slots = pool.keep(now, wanted=pool.account_id in wanted, every=IDLE)
            given += max(0, pool.granted - slots)
            if slots < pool.granted or ((slots or pool.in_use) and now - pool.leased_at >= _RENEW):
                pool.granted = slots  # at once: what is given back is not used in the meantime
                kept.append(pool)
        if kept:
            await self._write(kept, bool(wanted))
        for account_id in [name for name, pool in self._pools.items() if pool.is_done_with]:
            del self._pools[account_id]
        return given

    async def _write(self, pools: list[Pool], is_asked: bool) -> None:
        for pool in pools:
            await pool.lock.acquire()
        try:
            began = _now()
            slots = {pool.account_id: max(pool.granted, pool.in_use) for pool in pools}
            async with self._database.transaction() as conn:
                elsewhere = await store.keep_slots(conn, self._process, slots, self._lease)
                await store.drop_slots(conn, self._process, [name for name, count in slots.items() if not count])
                if is_asked:
                    await notify(conn, CHANNEL)
            for pool in pools:
                if pool.account_id in elsewhere:
                    pool.leased_at, pool.valid_until = began, began + self._lease
                    pool.shrink(elsewhere[pool.account_id])
                else:
                    pool.granted, pool.valid_until = 0, began
        finally:
            for pool in pools:
                pool.lock.release()
        await self._count_running([pool for pool in pools if pool.in_use and pool.valid_until <= began])

    async def _count_running(self, lapsed: Iterable[Pool]) -> None:
        """Their lease had lapsed: what runs is told again, so that others count it."""
        for pool in lapsed:
            await self._grant(pool, asked=False)

    def _tell_askers(self) -> None:
        for pool in self._pools.values():
            pool.news.set()

    async def _ask(self, pool: Pool) -> None:
        """Get slots for those who wait, or refuse them, until nobody waits."""
        try:
            while pool.live_waiters():
                await self._serve(pool)
        except EbbtideError as error:
            _fail(pool.live_waiters(), error)
        finally:
            pool.asker = None
            _fail(pool.live_waiters(), Unavailable("The gateway is stopping", retry_after=_RETRY))

    async def _serve(self, pool: Pool) -> None:
        asking = pool.live_waiters()
        until = _now() + _PATIENCE
        while True:
            pool.news.clear()
            await self._grant(pool, asked=True)
            if all(waiter.done() for waiter in asking):
                return
            if not pool.elsewhere or _now() >= until:
                _fail([waiter for waiter in asking if not waiter.done()], _refusal(pool.cap))
                return
            try:
                async with asyncio.timeout(_POLL):
                    await pool.news.wait()
            except TimeoutError:
                continue

    async def _grant(self, pool: Pool, *, asked: bool) -> None:
        """Take what the cap leaves of what is wanted, under the account's row; the others are told where it is less."""
        async with pool.lock:
            began = _now()
            async with self._database.transaction() as conn:
                await store.lock_account(conn, pool.account_id)
                elsewhere = await store.slots_elsewhere(conn, pool.account_id, self._process)
                target = pool.target(elsewhere)
                pool.granted = min(pool.granted, target)
                short = asked and target < pool.in_use + len(pool.waiting)
                held = max(target, pool.in_use)
                await store.set_slots(conn, (pool.account_id, self._process), held, self._lease, asked=short)
                if short and elsewhere:
                    await notify(conn, CHANNEL)
            pool.granted = target
            pool.leased_at, pool.valid_until = began, began + self._lease
            pool.hand_out(_now())


def _now() -> float:
    return asyncio.get_running_loop().time()


def _fail(waiters: Iterable[asyncio.Future[None]], error: EbbtideError) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)


def _refusal(cap: int) -> LimitReached:
    noun = "request" if cap == 1 else "requests"
    words = f"Your account may have {cap} {noun} running at once, and has them"
    return LimitReached(words, code="concurrency_limit", retry_after=_RETRY)
