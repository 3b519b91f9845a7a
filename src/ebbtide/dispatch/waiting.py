"""Calls that wait for room at a model's routes: those of people before those of batches, each in the order it came."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import Final

from ebbtide.dispatch.outcome import Source

_FIRST: Final[tuple[Source, ...]] = ("interactive", "batch")


def _was_woken(future: asyncio.Future[None]) -> bool:
    return future.done() and not future.cancelled()


class Waiting:
    """Who waits, by model id and source."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, Source], deque[asyncio.Future[None]]] = defaultdict(deque)
        self._count = 0

    async def wait(self, model_id: str, source: Source, seconds: float) -> bool:
        """Wait for `wake`; returns whether it came within `seconds`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting[model_id, source]
        queue.append(future)
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return _was_woken(future)
        except asyncio.CancelledError:
            if _was_woken(future):
                self.wake(model_id)  # somebody else may look in its place
            raise
        finally:
            self._count -= 1
            if not _was_woken(future):
                queue.remove(future)
        return True

    def count(self, model_id: str, source: Source) -> int:
        """How many wait."""
        return len(self._waiting.get((model_id, source), ()))

    def wake(self, model_id: str) -> None:
        """A call on a route of the model has ended: the next in line may look."""
        if not self._count:
            return
        for source in _FIRST:
            queue = self._waiting[model_id, source]
            while queue:
                future = queue.popleft()
                if not future.done():
                    future.set_result(None)
                    return
