"""`ebbtide` and `python -m ebbtide`."""

from __future__ import annotations

import sys

from ebbtide.cli.app import run
from ebbtide.logs import set_up_logging


def main() -> int:
    """Run the command line of this process; returns the exit status."""
    set_up_logging("warning")  # to standard error: what a command prints is its answer; serve and worker set it anew
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
