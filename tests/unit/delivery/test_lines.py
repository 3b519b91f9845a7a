"""A result as a line: which file it belongs to, and what it says of a request without an answer."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from ebbtide.batches.results import Result
from ebbtide.delivery.lines import result_line, succeeded

DONE = Result(7, "c", "completed", "req_x", b'{"a":1}', None, None, None)
FAILED = replace(DONE, state="failed", answer=None, error_code="invalid_request", error_message="no", error_status=400)


def test_an_answer_is_spliced_in_untouched() -> None:
    assert succeeded(DONE)
    assert result_line(replace(DONE, answer=b'{"a": 1e2}')).endswith(b'"body":{"a": 1e2}},"error":null}\n')


@pytest.mark.parametrize(
    ("result", "response", "error"),
    [
        (FAILED, {"status_code": 400, "request_id": "req_x", "code": "invalid_request"}, None),
        (replace(FAILED, error_code="batch_failed", error_status=None), None, "batch_failed"),
        (replace(FAILED, state="cancelled", error_status=503), None, "batch_cancelled"),
        (replace(FAILED, state="expired", error_code=None), None, "batch_expired"),
        (replace(FAILED, error_status=None), None, "invalid_request"),
    ],
)
def test_a_request_without_an_answer(result: Result, response: dict[str, object] | None, error: str | None) -> None:
    assert not succeeded(result)
    line = msgspec.json.decode(result_line(result))
    assert (line["id"], line["custom_id"]) == ("batch_req_7", "c")
    if response is None:
        assert line["response"] is None
        assert line["error"]["code"] == error
        assert line["error"]["message"]
    else:
        assert line["error"] is None
        assert line["response"]["status_code"] == response["status_code"]
        assert line["response"]["request_id"] == response["request_id"]
        assert line["response"]["body"]["error"]["message"] == "no"
