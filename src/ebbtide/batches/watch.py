"""Who follows batches: one look at the database a second for all batches that anyone in this process follows.

The looking begins with the first follower and ends with the last. A follower that is slow misses states in between,
never the last one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from ebbtide.batches.model import Job
from ebbtide.batches.progress import Moment, get_batches
from ebbtide.errors import Unavailable
from ebbtide.storage.pool import Database

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
RATE_WINDOW: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch as it is, and how many of its requests end in a second, over the last minute; None until that is known.

    `job` is None once the batch has been deleted.
    """

    job: Job | None
    rate: float | None

    @property
    def is_last(self) -> bool:
        """Whether nothing can follow."""
        return self.job is None or self.job.has_ended

    def differs(self, other: Progress) -> bool:
        """Whether there is something to tell; an estimate that moves with the time alone is nothing."""
        mine, theirs = self.job, other.job
        if mine is None or theirs is None:
            return mine is not theirs
        return _told(mine, self.rate) != _told(theirs, other.rate)


def _told(job: Job, rate: float | None) -> tuple[object, ...]:
    return (job.version, job.blocked_reason, job.finishes_in_time, rate)


@dataclass(slots=True)
class _Followed:
    """A batch that somebody follows: how many of its requests had ended when, and the bells of its followers."""

    progress: Progress
    counts: deque[tuple[datetime, int]] = field(default_factory=deque)
    bells: list[asyncio.Event] = field(default_factory=list)

    def seen(self, job: Job | None, now: datetime) -> None:
        """Take up what was read, unless it is older than what is known."""
        before = self.progress
        if job is not None and before.job is not None and job.version < before.job.version:
            return
        self.progress = Progress(job, None if job is None else self._rate(job, now))
        if self.progress.differs(before):
            self.ring()

    def ring(self) -> None:
        for bell in self.bells:
            bell.set()

    def _rate(self, job: Job, now: datetime) -> float | None:
        counts = self.counts
        counts.append((now, job.finished))
        while len(counts) > 2 and now - counts[1][0] >= RATE_WINDOW:
            counts.popleft()
        (start, before), (end, finished) = counts[0], counts[-1]
        seconds = (end - start).total_seconds()
        return None if seconds <= 0 else round((finished - before) / seconds, 3)


class Watch:
    """The followers of one process. `moment` tells the time and the role that batches need; `stopping` ends it all."""

    def __init__(self, database: Database, moment: Callable[[], Moment], stopping: asyncio.Event) -> None:
        self._database = database
        self._moment = moment
        self._stopping = stopping
        self._followed: dict[str, _Followed] = {}
        self._looking: asyncio.Task[None] | None = None

    async def follow(self, job: Job, *, quiet: float, seconds: float) -> AsyncGenerator[Progress | None, None]:
        """The batch as it is now, then again whenever it has changed; None after `quiet` seconds without a change.

        Ends after the last state, after `seconds`, and when the process stops. `job` was read a moment ago.
        """
        ends_at = asyncio.get_running_loop().time() + seconds
        with self._bell(job) as (followed, bell):
            followed.seen(job, self._moment().now)
            looking = self._look()
            bell.set()
            told: Progress | None = None
            while (left := ends_at - asyncio.get_running_loop().time()) > 0:
                rung = await _rung(bell, min(quiet, left))
                bell.clear()
                if told is None or followed.progress.differs(told):
                    told = followed.progress
                    yield told
                elif not rung:
                    yield None
                if told.is_last or looking.done():
                    return

    @contextmanager
    def _bell(self, job: Job) -> Iterator[tuple[_Followed, asyncio.Event]]:
        """The batch among those that are looked at, and a bell of its own for one more follower."""
        followed = self._followed.setdefault(job.id, _Followed(Progress(job, None)))
        bell = asyncio.Event()
        followed.bells.append(bell)
        try:
            yield followed, bell
        finally:
            followed.bells.remove(bell)
            if not followed.bells:
                del self._followed[job.id]

    def _look(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on(), name="watch")
            self._looking.add_done_callback(self._looked)
        return self._looking

    async def _look_on(self) -> None:
        """Look once a second as long as anyone follows anything; an unreachable database is waited for."""
        while self._followed and not await _rung(self._stopping, LOOK_SECONDS):
            try:
                await self._look_once()
            except Unavailable as error:
                log.warning("watch_waits", reason=error.message)

    def _looked(self, task: asyncio.Task[None]) -> None:
        """Nobody looks any more: whoever still follows is let go, and may come again."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("watch_failed", exc_info=error)
        for followed in self._followed.values():
            followed.ring()

    async def _look_once(self) -> None:
        moment, batch_ids = self._moment(), list(self._followed)
        if not batch_ids:
            return
        async with self._database.connection() as conn:
            jobs = {job.id: job for job in await get_batches(conn, batch_ids, moment)}
        for batch_id in batch_ids:
            if (followed := self._followed.get(batch_id)) is not None:
                followed.seen(jobs.get(batch_id), moment.now)


async def _rung(bell: asyncio.Event, seconds: float) -> bool:
    """Whether the bell rings within `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    return bell.is_set()
