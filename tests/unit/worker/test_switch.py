"""A worker says in its log when batch work was switched off, once."""

from __future__ import annotations

import structlog

from ebbtide.worker.switch import Switch


def test_each_change_is_told_once() -> None:
    switch = Switch()
    with structlog.testing.capture_logs() as told:
        for on in (True, True, False, False, True, True):
            switch.seen(on)
    assert [entry["event"] for entry in told] == ["batch_worker_disabled", "batch_worker_enabled"]
