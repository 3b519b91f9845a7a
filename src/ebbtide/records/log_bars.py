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

    Windows whose bars are of one length end together, so what the longest reads serves the others.
    """
    figures: dict[timedelta, Mapping[tuple[datetime, str], Figures]] = {}
    async with database.transaction() as conn:
        await see_one_moment(conn)
        for window in sorted(windows, key=lambda one: one.count, reverse=True):
            if window.bar not in figures:
                figures[window.bar] = await count_requests(conn, window.span(now), window.bar, which.model)
    return [(window, cut(window, now, figures[window.bar], which)) for window in windows]


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
