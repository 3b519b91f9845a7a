"""What a worker's log tells of BATCH_ENABLED: for whoever waits, before an upgrade, until nobody claims any more."""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)


class Switch:
    """`seen` is called every round; the log has one line whenever batch work has been switched off or on."""

    def __init__(self) -> None:
        self._on = True

    def seen(self, on: bool) -> None:
        if on is not self._on:
            self._on = on
            log.warning("batch_worker_enabled" if on else "batch_worker_disabled")
