"""What the operator reads while a gateway goes up and down, from one process or from the parent of several."""

from __future__ import annotations

from typing import Final

GRACE_SECONDS: Final = 30
STOPPING: Final = f"Stopping: what runs may take {GRACE_SECONDS} seconds to finish. Ctrl-C again ends it at once."
STOPPED: Final = "Stopped."


def ready(pids: tuple[int, ...] = ()) -> str:
    """That it is up; of several processes, which."""
    which = f": {len(pids)} processes, pid {', '.join(map(str, pids))}" if pids else ""
    return f"Ready{which}. Ctrl-C stops it in good order, a second one at once."
