"""A process's heartbeat: every second how it stands, for itself and for its siblings behind the port.

The heartbeat waits for nothing but the event loop, so it goes on while the database is away; the checks, which may
wait, are looked at by a duty of their own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Literal

from ebbtide.duties import Check, Duty
from ebbtide.errors import EbbtideError
from ebbtide.siblings import Beat, Folder, Sample

CHECK_SECONDS: Final = 5
_LAG_EVERY: Final = 0.25


class Pulse:
    """This process among its siblings; with `folder` None it has none. `gauges` and `loops` are what it shows."""

    def __init__(self, folder: Folder | None, place: int, observe_lag: Callable[[float], None]) -> None:
        self.place = place
        self.folder = folder
        self.checks: Mapping[str, Check] = {}
        self.gauges: list[Callable[[], list[Sample]]] = []
        self.loops: list[Callable[[], Mapping[str, float]]] = []
        self._state: Literal["starting", "up", "stopping"] = "starting"
        self._troubles: dict[str, str] = {}
        self._observe_lag = observe_lag

    def duties(self) -> list[Duty]:
        """The heartbeat, and the look at oneself; both go on whatever happens."""
        return [
            Duty("heartbeat", self._beat, 1.0, steady=True, patience=5),
            Duty("self check", self._look, 2.0, steady=True, patience=30),
        ]

    def begin(self) -> None:
        """The process is up."""
        self._state = "up"
        self.tell()

    def stop(self) -> None:
        """The process takes no new work."""
        self._state = "stopping"
        self.tell()

    def tell(self) -> None:
        if self.folder is not None:
            self.folder.write(self.place, self.now())

    def now(self) -> Beat:
        """How it stands at this moment, by the last look at the checks."""
        loops = {name: at for part in self.loops for name, at in part().items()}
        gauges = [sample for part in self.gauges for sample in part()]
        return Beat(os.getpid(), self._state, time.monotonic(), self._troubles, loops, gauges)

    async def look(self) -> dict[str, str]:
        """Every check's word, `ok` or what is wrong."""
        found = await asyncio.gather(*(_ask(check) for check in self.checks.values()))
        words = dict(zip(self.checks, found, strict=True))
        if self._state == "stopping":
            words["process"] = "is stopping"
        self._troubles = {name: said for name, said in words.items() if said != "ok"}
        return words

    def family(self) -> Mapping[int, Beat]:
        """Every process's last word by its place; this one's is fresh."""
        others = {} if self.folder is None else self.folder.read()
        return {**others, self.place: self.now()}

    async def watch_lag(self) -> None:
        """Measure, for ever, how late the event loop wakes up."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_EVERY
            await asyncio.sleep(_LAG_EVERY)
            self._observe_lag(max(0.0, loop.time() - due))

    async def _beat(self, now: datetime) -> int:
        self.tell()
        return 0

    async def _look(self, now: datetime) -> int:
        await self.look()
        return 0


async def _ask(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check() or "ok"
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS} seconds"
    except EbbtideError as error:
        return error.message
