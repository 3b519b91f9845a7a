"""Exit statuses, the same for every command."""

from __future__ import annotations

from typing import Final

OK: Final = 0
REFUSED: Final = 1  # something went wrong, or the gateway said no; doctor: something is bad
USAGE: Final = 2  # the command line, a setting or a file it names is wrong
SOME_FAILED: Final = 3  # the batch completed, but not every request of it succeeded
BATCH_ENDED: Final = 4  # the batch failed, expired or was cancelled
UNREACHABLE: Final = 5  # no gateway answers at the URL, or it cannot serve at the moment
INTERRUPTED: Final = 130  # Ctrl-C

MEANINGS: Final = (
    (OK, "done; for a batch that was waited for: it completed and every request succeeded"),
    (REFUSED, "an error, or the gateway refused; for doctor: something is bad"),
    (USAGE, "the command line, a setting or a file named by it is wrong"),
    (SOME_FAILED, "the batch completed, but not every request succeeded"),
    (BATCH_ENDED, "the batch failed, expired or was cancelled"),
    (UNREACHABLE, "no gateway could be reached, or it could not serve"),
    (INTERRUPTED, "interrupted with Ctrl-C"),
)


def as_list() -> str:
    """The statuses and their meanings as a Markdown list."""
    return "\n".join(f"- {status}: {meaning}" for status, meaning in MEANINGS)
