"""Causes are logged once a minute each, with what was kept quiet meanwhile."""

from __future__ import annotations

import asyncpg
from structlog.testing import capture_logs

from ebbtide.storage.causes import CauseLog


def test_each_cause_is_told_once_a_while() -> None:
    now = [0.0]
    causes = CauseLog(lambda: now[0], interval=60.0)
    lost = ConnectionResetError(104, "Connection reset by peer")
    with capture_logs() as logs:
        for second in (0.0, 1.0, 59.0, 60.0, 61.0):
            now[0] = second
            causes.tell(lost, "query")
        causes.tell(asyncpg.DiskFullError("could not extend file"), "query")
        causes.tell(lost, "connecting")
    assert [(entry["cause"], entry["untold_before"]) for entry in logs] == [
        ("ConnectionResetError", 0),
        ("ConnectionResetError", 2),
        ("DiskFullError", 0),
        ("ConnectionResetError", 0),
    ]
    assert logs[0]["reason"] == "Connection reset by peer"
    assert {entry["event"] for entry in logs} == {"database_unavailable"}
