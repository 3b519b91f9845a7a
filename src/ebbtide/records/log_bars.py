"""The request log's figures as bars: windows that end now, each cut into stretches of one length on whole UTC times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ebbtide.records.log_read import Figures, count_requests, see_one_moment
from ebbtide.storage.pool import Database

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = Figures()


@dataclass(frozen=True, slots=True)
class Window:
    """`count` bars of length `bar`, the last of which is not over yet. Bars below an hour may reach back 8 hours,
    those below a day 8 days (ebbtide.records.log_days)."""

    name: str
    bar: timedelta
    count: int

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """Where it begins and, not included, ends."""
        end = _EPOCH + ((now - _EPOCH) // self.bar + 1) * self.bar
        return end - self.count * self.bar, end


WINDOWS: Final = (
    Window("1h", timedelta(minutes=1), 60),
    Window("6h", timedelta(minutes=5), 72),
    Window("24h", timedelta(hours=1), 24),
    Window("7d", timedelta(hours=1), 168),
    Window("30d", timedelta(days=1), 30),
    Window("90d", timedelta(days=1), 90),
)


@dataclass(frozen=True, slots=True)
class Which:
    """What `asked` figures are of: a source and a model, or all."""

    source: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch, its end not included: the requests that were asked for, and the batch worker's."""

    start: datetime
    end: datetime
    asked: Figures = _NONE
    batch: Figures = _NONE

    def plus(self, other: Bar) -> Bar:
        """This stretch with the other's figures added to its own."""
        return Bar(self.start, self.end, self.asked + other.asked, self.batch + other.batch)


async def read_windows(
    database: Database, windows: Sequence[Window], now: datetime, which: Which
) -> list[tuple[Window, list[Bar]]]:
    """The bars of each window, those without a request too; all from one moment.

    Bars of one length end together, so what the longest window reads serves the others. Each row of figures is read
    once: longer bars are read up to where shorter ones begin, and sum those up from there on.
    """
    begins: dict[timedelta, datetime] = {}
    for window in windows:
        begins[window.bar] = min(window.span(now)[0], begins.get(window.bar, now))
    figures: dict[timedelta, dict[tuple[datetime, str], Figures]] = {}
    shorter: dict[tuple[datetime, str], Figures] = {}
    end = max(window.span(now)[1] for window in windows)
    async with database.transaction() as conn:
        await see_one_moment(conn)
        for bar in sorted(begins):
            span = (begins[bar], end)
            read = await count_requests(conn, span, bar, which.model)
            shorter = figures[bar] = join(shorter, read, bar)
            end = begins[bar]
    return [(window, cut(window, now, figures[window.bar], which)) for window in windows]


def join(
    shorter: Mapping[tuple[datetime, str], Figures], read: Mapping[tuple[datetime, str], Figures], bar: timedelta
) -> dict[tuple[datetime, str], Figures]:
    """Figures of bars of one length with those of shorter bars added, by beginning and source."""
    joined = dict(read)
    for (start, source), more in shorter.items():
        key = (_EPOCH + (start - _EPOCH) // bar * bar, source)
        joined[key] = joined.get(key, _NONE) + more
    return joined


def cut(window: Window, now: datetime, figures: Mapping[tuple[datetime, str], Figures], which: Which) -> list[Bar]:
    """A window's bars from the figures by beginning and source."""
    begin, _ = window.span(now)
    starts = [begin + number * window.bar for number in range(window.count)]
    return [_bar(start, window.bar, figures, which) for start in starts]


def _bar(start: datetime, length: timedelta, figures: Mapping[tuple[datetime, str], Figures], which: Which) -> Bar:
    interactive = figures.get((start, "interactive"), _NONE)
    batch = figures.get((start, "batch"), _NONE)
    asked = {"interactive": interactive, "batch": batch}.get(which.source or "", interactive + batch)
    return Bar(start, start + length, asked, batch)
