"""How a process ends: what runs may finish within a grace period, and a second wish to end cuts it off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ebbtide.announcements import GRACE_SECONDS
from ebbtide.api.server import HttpServer


class Stop:
    """The wish to end: asked once, gracefully; asked again, at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self.then: Callable[[], None] | None = None  # done when it is asked for the first time

    def ask(self) -> None:
        if self.asked.is_set():
            self.at_once.set()
            return
        self.asked.set()
        if self.then is not None:
            self.then()


async def close_doors(server: HttpServer | None, served: list[asyncio.Task[None]], stop: Stop) -> None:
    """Let what runs finish within the grace period, or break it off as soon as that is asked for."""
    stop.asked.set()
    if server is not None:
        server.stop(GRACE_SECONDS)
    finishing = asyncio.create_task(_all_ended(served))
    hurry = asyncio.create_task(stop.at_once.wait())
    await asyncio.wait({finishing, hurry}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if finishing.done():
        return
    if server is not None:
        server.stop(0)
    for task in served:
        if task.get_name() != "http":
            task.cancel()
    await finishing


async def _all_ended(tasks: Sequence[asyncio.Task[None]]) -> bool:
    await asyncio.gather(*tasks, return_exceptions=True)
    return True


async def wait_first(*events: asyncio.Event) -> None:
    """Until the first of them is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
