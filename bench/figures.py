"""A bench's answer: figures with their goals; how they are printed, and handed to `python -m bench`."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import uvloop


class Figure(msgspec.Struct, frozen=True):
    """One measured value. `goal` None: told for information. `runs` are the values that `value` is the median of."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    reach: Literal["at least", "at most"] = "at least"
    runs: tuple[float, ...] = ()

    @property
    def is_reached(self) -> bool:
        if self.goal is None:
            return True
        return self.value >= self.goal if self.reach == "at least" else self.value <= self.goal

    @property
    def told(self) -> str:
        """The value with its unit."""
        return f"{shown(self.value)} {self.unit}".strip()

    @property
    def wanted(self) -> str:
        return "" if self.goal is None else f"{'≥' if self.reach == 'at least' else '≤'} {shown(self.goal)}"

    @property
    def spread(self) -> str:
        """Lowest to highest run."""
        return f"{shown(min(self.runs))}…{shown(max(self.runs))}" if len(self.runs) > 1 else ""


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median_of(name: str, values: Sequence[float], unit: str = "", **goal: object) -> Figure:
    """A figure that is the median of its runs."""
    made = {"name": name, "value": statistics.median(values), "unit": unit, "runs": tuple(values)} | goal
    return msgspec.convert(made, Figure)


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Run by run, so that what slowed the whole machine slowed both."""
    return [a / b for a, b in zip(above, below, strict=True)]


Measure = Callable[[argparse.Namespace], Awaitable[list[Figure]]]


def main(description: str, measure: Measure, *, strict: bool = False, **options: int | float) -> None:
    """Run one bench from the command line; `options` are its arguments with their defaults. `strict`: a missed goal is
    a failure.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    arguments = parser.parse_args()
    figures = uvloop.run(_run(measure, arguments))
    for figure in figures:
        mark = " " if figure.is_reached else "!"
        print(f"{mark} {figure.name:<58} {figure.told:>16} {figure.wanted:>10}  {figure.spread}")
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.encode(figures))
    if strict and not all(figure.is_reached for figure in figures):
        raise SystemExit(1)


async def _run(measure: Measure, arguments: argparse.Namespace) -> list[Figure]:
    return await measure(arguments)
