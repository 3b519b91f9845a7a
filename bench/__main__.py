"""All benches, one after the other, each in a process of its own; what they find is kept in bench/results.md.

`python -m bench` runs them all, `python -m bench drain slots` some: the others' rows stay as they are.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.figures import Figure
from bench.processes import ROOT

BENCHES = ("drain", "slots", "intake", "backlog", "reading", "event_loop", "export", "pages", "proxy", "yielding")
RESULTS = Path(__file__).with_name("results.md")
_KEPT = Path(__file__).with_name("results.json")

_HEAD = """# Figures

Written by `make bench`; what each figure means, and why the goals are what they are, is in `docs/performance.md`.
Values are medians, with the lowest and highest run beside them. Ratios come from runs that take turns on one machine.
"""


class Kept(msgspec.Struct):
    """What one bench found, on what kind of machine."""

    machine: str
    figures: list[Figure]


def machine() -> str:
    """The machine in general words, and how busy it is with other things."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores, {memory:.0f} GiB of memory, {platform.system()}, Python {platform.python_version()}; "
        f"load before it began {os.getloadavg()[0]:.1f}"
    )


def run(name: str) -> Kept:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        where = machine()
        subprocess.run([sys.executable, "-m", f"bench.{name}", "--json", str(path)], cwd=ROOT, check=True)
        return Kept(where, msgspec.json.decode(path.read_bytes(), type=list[Figure]))


def render(kept: dict[str, Kept]) -> str:
    parts = [_HEAD]
    for name in BENCHES:
        if name not in kept:
            continue
        parts.append(f"\n## {name.replace('_', ' ')}\n\nOn {kept[name].machine}.\n\n")
        parts.append("| figure | value | runs | goal | |\n|---|---|---|---|---|\n")
        parts += [_row(figure) for figure in kept[name].figures]
    return "".join(parts)


def _row(figure: Figure) -> str:
    reached = "" if figure.goal is None else "reached" if figure.is_reached else "**missed**"
    return f"| {figure.name} | {figure.told} | {figure.spread} | {figure.wanted} | {reached} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benches", nargs="*", metavar="bench", help=", ".join(BENCHES))
    wanted = parser.parse_args().benches or BENCHES
    if unknown := set(wanted) - set(BENCHES):
        parser.error(f"there is no bench {', '.join(sorted(unknown))}")
    kept = msgspec.json.decode(_KEPT.read_bytes(), type=dict[str, Kept]) if _KEPT.exists() else {}
    for name in wanted:
        began = time.monotonic()
        print(f"{name}", flush=True)
        kept[name] = run(name)
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
        _KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        RESULTS.write_text(render(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
