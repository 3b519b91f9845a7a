"""A batch's results as JSONL, in the line shape of OpenAI's batch files. Pure; answers are never re-encoded."""

from __future__ import annotations

from typing import Final, get_args

from ebbtide.batches.results import Result
from ebbtide.dialects.openai.batch import NeverRun, ResultError, error_line, never_run, output_line

_UNRUN: Final[dict[str, NeverRun]] = {"cancelled": "batch_cancelled", "expired": "batch_expired"}
_NEVER_RUN_CODES: Final = frozenset(get_args(NeverRun))


def succeeded(result: Result) -> bool:
    """Whether the result belongs into the output file; all others belong into the error file."""
    return result.answer is not None


def result_line(result: Result) -> bytes:
    """The line of a request that is final."""
    if result.answer is not None:
        return output_line(result.id, result.custom_id, result.request_id, result.answer)
    return error_line(result.id, result.custom_id, result.request_id, error_of(result))


def error_of(result: Result) -> ResultError:
    """What went wrong with a request that has no answer."""
    unrun = _UNRUN.get(result.state)
    if unrun is not None:
        return never_run(unrun, tried=result.attempts > 0)
    if result.error_status is None or result.error_code in _NEVER_RUN_CODES:
        return ResultError(code=result.error_code or "upstream_error", message=result.error_message or "")
    return ResultError(
        code=result.error_code or "upstream_error", message=result.error_message or "", status=result.error_status
    )
