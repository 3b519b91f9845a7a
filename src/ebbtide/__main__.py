"""`ebbtide` and `python -m ebbtide`."""

from __future__ import annotations

import sys

from ebbtide.cli.app import run


def main() -> int:
    """Run the command line of this process; returns the exit status."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
