"""What a results page says of a request, in every state."""

from __future__ import annotations

import json

import pytest

from ebbtide.api.openai.render import result_list
from ebbtide.batches.results import Result
from ebbtide.files.model import Page


def shown(state: str, code: str | None = None, status: int | None = None) -> dict[str, object]:
    message = None if code is None else "why"
    result = Result(1, "a", state, None, None, code, message, status)
    found: dict[str, object] = json.loads(result_list(Page([result], False)))["data"][0]
    return found


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_request_that_is_not_final_shows_its_last_error(state: str) -> None:
    assert shown(state)["error"] is None
    assert shown(state, "upstream_error", 500)["error"] == {
        "code": "upstream_error",
        "message": "why",
        "status": 500,
    }


def test_a_request_that_never_ran_says_why() -> None:
    expired = shown("expired")
    assert expired["status"] == "expired"
    assert expired["response"] is None
    assert expired["error"] == {
        "code": "batch_expired",
        "message": "Not run: the completion window closed first",
    }
    assert shown("cancelled")["error"] is None
    assert shown("failed", "batch_failed")["error"] == {"code": "batch_failed", "message": "why"}
