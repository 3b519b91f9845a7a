"""How a wait looks: a live bar on a terminal, a line now and then anywhere else. All of it goes to standard error."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ebbtide.cli.wire import Batch

_WINDOW: Final = 60.0  # seconds of the past that the pace is taken from
_LINE_EVERY: Final = 10.0
_QUIET_LINE_EVERY: Final = 60.0  # while nothing moves

_REASONS: Final = {
    "daily_quota": "the account's quota for today is used up",
    "monthly_quota": "the account's quota for this month is used up",
    "key_budget": "the key has spent its budget",
    "role": "the account's role is below the one that batches need",
    "model_queued": "the model waits for its hardware",
    "model_paused": "the model failed several times in a row and rests",
    "yielding": "interactive requests use the model",
    "no_route_up": "no server of the model is up",
    "model_cap": "the model runs as many batch requests as it may",
    "load_unknown": "how busy the model is cannot be read",
    "account_cap": "the account runs as many batch requests as it may",
}


class Display(Protocol):
    """Shows a batch as it goes along; `latest` is what it showed last, `explain` tells what holds it up."""

    latest: Batch | None

    def show(self, batch: Batch) -> None: ...

    def explain(self, waits: str) -> None: ...

    def say(self, message: str) -> None: ...


class Pace:
    """How fast requests get done, and so how long the rest will take."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def seen(self, now: float, done: int) -> None:
        """At `now` (seconds) this many were done."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW:
            self._seen.popleft()

    def seconds_left(self, total: int) -> float | None:
        """None while it cannot be told."""
        if not self._seen or total == 0:
            return None
        (start, before), (now, done) = self._seen[0], self._seen[-1]
        if done >= total:
            return 0.0
        if now <= start or done <= before:
            return None
        return (total - done) * (now - start) / (done - before)


@contextmanager
def display(stream: TextIO, clock: Callable[[], float]) -> Iterator[Display]:
    """The display that suits `stream`; `clock` counts seconds."""
    if not stream.isatty():
        yield _Lines(stream, clock)
        return
    columns = (
        TextColumn("{task.fields[status]}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[failed]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=Console(file=stream), transient=False) as progress:
        yield _Bar(progress, clock)


class _Shown:
    """What both displays know of the batch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.latest: Batch | None = None
        self._clock = clock
        self._pace = Pace()
        self._waits = ""

    def show(self, batch: Batch) -> None:
        if self.latest is not None and batch.counts.done != self.latest.counts.done:
            self._waits = ""
        self.latest = batch
        self._pace.seen(self._clock(), batch.counts.done)
        self._draw(batch)

    def explain(self, waits: str) -> None:
        self._waits = waits
        if self.latest is not None:
            self.show(self.latest)

    def _draw(self, batch: Batch) -> None:
        raise NotImplementedError

    def _left(self, batch: Batch) -> str:
        """Why nothing runs, or how long the rest takes and whether that is too long."""
        if batch.is_final:
            return ""
        if batch.blocked_reason is not None:
            return f"waits: {batch.blocked_reason} ({_REASONS.get(batch.blocked_reason, 'see the documentation')})"
        if self._waits:
            return self._waits
        seconds = self._pace.seconds_left(batch.counts.total)
        if seconds is None:
            return ""
        return f"about {span(seconds)} left" + (", longer than its window" if batch.finishes_in_time is False else "")


class _Bar(_Shown):
    def __init__(self, progress: Progress, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._progress = progress
        self._task: TaskID | None = None

    def _draw(self, batch: Batch) -> None:
        counts = batch.counts
        failed = f", {counts.failed} failed" if counts.failed else ""
        left = self._left(batch)
        if self._task is None:
            self._task = self._progress.add_task("", total=counts.total, status="", failed="", left="")
        self._progress.update(
            self._task, total=counts.total, completed=counts.done, status=batch.status, failed=failed, left=left
        )

    def say(self, message: str) -> None:
        self._progress.console.print(message, markup=False, highlight=False)


class _Lines(_Shown):
    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._stream = stream
        self._kind: tuple[str, str | None, bool] | None = None
        self._done = -1
        self._at = 0.0

    def _draw(self, batch: Batch) -> None:
        counts, now = batch.counts, self._clock()
        pause = _QUIET_LINE_EVERY if counts.done == self._done else _LINE_EVERY
        kind = (batch.status, batch.blocked_reason, bool(self._waits))
        if kind == self._kind and now - self._at < pause:
            return
        self._kind, self._done, self._at = kind, counts.done, now
        done = f": {counts.done} of {counts.total} done" if counts.total else ""
        failed = f", {counts.failed} failed" if counts.failed else ""
        left = self._left(batch)
        self.say(f"{batch.id} {batch.status}{done}{failed}{left and ', ' + left}")

    def say(self, message: str) -> None:
        print(message, file=self._stream, flush=True)


def span(seconds: float) -> str:
    """A duration for people: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
