"""Who runs a command that works on the database directly, as the audit log names it."""

from __future__ import annotations

import getpass
import os


def actor() -> str:
    """`cli:<user>`, with the user's number where the system has no name for it."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"
