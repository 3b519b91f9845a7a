"""Work that grows with the size of a body: a small one is worked on at once, a large one in a thread.

A decoded body can weigh many times its bytes, so only a few very large ones are taken apart at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
P = ParamSpec("P")

LARGE: Final = 256 * 1024  # bytes that the event loop can spare the time for
VERY_LARGE: Final = 1024 * 1024
AT_ONCE: Final = 2

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def by_weight(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` on a body of `size` bytes returns, off the event loop where that is large."""
    if size <= LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


@asynccontextmanager
async def in_turn(size: int) -> AsyncIterator[None]:
    """Wait until no more than one other body of this process over 1 MiB is in here; smaller ones wait for nobody."""
    if size <= VERY_LARGE:
        yield
        return
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    async with turns:
        yield
