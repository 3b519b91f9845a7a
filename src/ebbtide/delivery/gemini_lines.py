"""The results of a Gemini batch in its own forms: lines of a file, and inline answers. Pure; answers are never
re-encoded.
"""

from __future__ import annotations

from typing import Final

from ebbtide.batches.results import Result
from ebbtide.batches.stored import StoredRequest
from ebbtide.delivery.lines import error_of
from ebbtide.dialects.gemini.batch import GeminiFailure, failure, inlined, metadata_of, result_line

_UNRUN: Final = {"cancelled": 499, "expired": 504}


def gemini_line(result: Result) -> bytes:
    """The line of a request that is final."""
    return result_line(result.custom_id, _outcome(result))


def inline_answer(stored: StoredRequest) -> dict[str, object]:
    """The inline answer of a request that is final, with its metadata."""
    return inlined(_outcome(stored.result), metadata_of(stored.line))


def _outcome(result: Result) -> bytes | GeminiFailure:
    if result.answer is not None:
        return result.answer
    status = _UNRUN.get(result.state) or result.error_status or 500
    return failure(status, error_of(result).message)
