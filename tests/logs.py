"""What a test captured of the log, by the events it asks about.

All tests of a process share one event loop, so a timer that an earlier test started may log while this one captures.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, TypeAlias

Entry: TypeAlias = MutableMapping[str, Any]


def told(logs: Sequence[Entry], *events: str) -> list[Entry]:
    """The captured entries of these events, in their order."""
    return [entry for entry in logs if entry["event"] in events]
