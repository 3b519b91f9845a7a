"""What runs beside the requests, by name, as tasks that one place starts, watches and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[str | None]]
"""Asks whether something is well: None when it is, else what is wrong in words."""


class Duties:
    """Running tasks by name. One that ends by itself is logged, and its check says so from then on."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self.checks: dict[str, Check] = {}

    def start(self, name: str, duty: Coroutine[Any, Any, None], check: Check | None = None) -> asyncio.Task[None]:
        """Run `duty`; `check` tells of trouble that does not end it."""
        task = asyncio.create_task(duty, name=name)
        task.add_done_callback(_tell_end)

        async def check_duty() -> str | None:
            if task.done():
                return "has ended"
            return None if check is None else await check()

        self._tasks.append(task)
        self.checks[name] = check_duty
        return task

    async def stop(self) -> None:
        """Cancel what still runs, and wait for its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _tell_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("duty_failed", duty=task.get_name(), exc_info=task.exception())
