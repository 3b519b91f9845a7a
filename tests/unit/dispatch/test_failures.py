"""What the log is told of failing upstreams: enough, and not a line a call."""

from __future__ import annotations

from collections.abc import Callable

from structlog.testing import capture_logs

from ebbtide.dispatch.failures import INTERVAL, FailureLog
from ebbtide.dispatch.outcome import Failed


def failed(route: str, status: int = 503) -> Failed:
    return Failed("status", status, "service_unavailable", "words of the upstream's", sent=True, route=route)


class Later:
    """Runs what was put off when the test says that the time has come."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def __call__(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == INTERVAL
        self._waiting.append(call)

    def pass_by(self) -> None:
        due, self._waiting = self._waiting, []
        for call in due:
            call()


def test_the_first_failure_is_told_at_once_and_the_next_are_counted() -> None:
    later = Later()
    failures = FailureLog(later)
    with capture_logs() as told:
        for _ in range(1000):
            failures.note("m", failed("a"))
        assert [line["count"] for line in told] == [1]
        later.pass_by()
        assert [line["count"] for line in told] == [1, 999]
        later.pass_by()
        later.pass_by()
        failures.note("m", failed("a"))
    assert [line["count"] for line in told] == [1, 999, 1]
    first = {"event": "upstream_failed", "log_level": "warning", "count": 1}
    assert told[0] == {**first, "route": "a", "model": "m", "kind": "status", "status": 503}


def test_routes_models_and_statuses_are_told_apart() -> None:
    failures = FailureLog(Later())
    with capture_logs() as told:
        for _ in range(2):
            failures.note("m", failed("a"))
            failures.note("m", failed("a", 500))
            failures.note("m", failed("b"))
            failures.note("n", failed("b"))
    assert [(line["model"], line["route"], line["status"]) for line in told] == [
        ("m", "a", 503),
        ("m", "a", 500),
        ("m", "b", 503),
        ("n", "b", 503),
    ]
