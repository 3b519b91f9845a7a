"""Tells the log which routes fail and how, however many calls do: the first failure of a kind at once, what follows as
a count after each interval, until one passes without any. Never a body, nor an upstream's words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import structlog

from ebbtide.dispatch.outcome import Failed

INTERVAL: Final = 10.0

Later: TypeAlias = Callable[[float, Callable[[], None]], object]
_Kind: TypeAlias = tuple[str, str | None, str, int]  # model, route, kind of failure, status

log = structlog.get_logger(__name__)


def _by_the_loop(seconds: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, call)


class FailureLog:
    """What failed lately. `later` runs a function after so many seconds; by default the running event loop does."""

    def __init__(self, later: Later = _by_the_loop) -> None:
        self._later = later
        self._untold: dict[_Kind, int] = {}

    def note(self, model: str, failed: Failed) -> None:
        """One upstream call has failed."""
        kind = (model, failed.route, failed.kind, failed.status)
        if kind in self._untold:
            self._untold[kind] += 1
        else:
            self._tell(kind, 1)

    def _tell(self, kind: _Kind, count: int) -> None:
        model, route, name, status = kind
        log.warning("upstream_failed", route=route, model=model, kind=name, status=status, count=count)
        self._untold[kind] = 0
        self._later(INTERVAL, lambda: self._sum_up(kind))

    def _sum_up(self, kind: _Kind) -> None:
        if count := self._untold.pop(kind):
            self._tell(kind, count)
