"""A Message Batch's results in its own line shape. Pure; messages are never re-encoded."""

from __future__ import annotations

from ebbtide.batches.results import Result
from ebbtide.dialects.anthropic.batch import errored_line, succeeded_line, unrun_line


def message_line(result: Result) -> bytes:
    """The line of a request that is final."""
    if result.answer is not None:
        return succeeded_line(result.custom_id, result.answer)
    if result.state == "cancelled":
        return unrun_line(result.custom_id, "canceled")
    if result.state == "expired":
        return unrun_line(result.custom_id, "expired")
    return errored_line(result.custom_id, result.error_status, result.error_message or "", result.request_id)
