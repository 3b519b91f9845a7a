"""Wire objects and result lines: as documented, and as the official SDK reads them."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Batch, FileDeleted, FileObject, Model

from ebbtide.dialects.openai import batch
from ebbtide.dialects.openai.batch import encode, error_line, never_run, output_line
from ebbtide.dialects.values import Usage, one_line

COUNTS = batch.RequestCounts(total=2, completed=0, failed=0)
NEW = batch.BatchObject(
    id="batch_1",
    endpoint="/v1/chat/completions",
    completion_window="24h",
    status="validating",
    created_at=1792929600,
    expires_at=1793016000,
    request_counts=COUNTS,
    metadata={"project": "eval-42"},
    usage=batch.batch_usage(Usage(0, 0, 0, 0)),
    cost_usd=0.0,
    cost_unknown_attempts=0,
)
TEXT = st.text() | st.sampled_from(["\u2028", "\u2029", "\x85", "a\r\nb", '"\\', "🌊", "\x1c\x0b\x0c"])


def test_a_new_batch_has_every_documented_field_in_order() -> None:
    members = json.loads(encode(NEW))
    assert list(members) == [
        "id", "object", "endpoint", "model", "errors", "input_file_id", "completion_window", "status",
        "output_file_id", "error_file_id", "created_at", "in_progress_at", "expires_at", "finalizing_at",
        "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at", "request_counts", "metadata",
        "usage", "anthropic_version", "cost_usd", "cost_unknown_attempts", "results_expires_at", "error",
        "estimated_completion_at", "finishes_in_time", "blocked_reason",
    ]  # fmt: skip
    assert members["request_counts"] == {"total": 2, "completed": 0, "failed": 0, "cancelled": 0, "expired": 0}
    assert members["usage"] == {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    assert members["object"] == "batch"
    assert members["errors"] is members["error"] is members["input_file_id"] is members["results_expires_at"] is None


def test_the_sdk_reads_a_batch() -> None:
    problem = batch.BatchErrorItem(code="invalid_json_line", message="not JSON", line=3)
    told = msgspec.structs.replace(
        NEW,
        status="failed",
        input_file_id="file-1",
        model="llama",
        errors=batch.BatchErrors(data=[problem]),
        usage=batch.batch_usage(Usage(10, 4, 5, 2)),
    )
    found = Batch.model_validate_json(encode(told), strict=True)
    assert found.errors is not None
    assert found.errors.data is not None
    assert (found.errors.data[0].line, found.errors.data[0].code) == (3, "invalid_json_line")
    assert found.usage is not None
    assert (found.usage.total_tokens, found.usage.input_tokens_details.cached_tokens) == (15, 4)
    assert found.model == "llama"
    assert found.metadata == {"project": "eval-42"}


def test_the_sdk_reads_files_models_and_deletions() -> None:
    stored = batch.FileObject(id="file-1", bytes=5, created_at=1, expires_at=2, filename="x.jsonl", purpose="batch")
    assert FileObject.model_validate_json(encode(stored), strict=True).status == "processed"
    assert list(json.loads(encode(stored))) == [
        "id", "object", "bytes", "created_at", "expires_at", "filename", "purpose", "status", "status_details",
    ]  # fmt: skip
    assert FileDeleted.model_validate_json(encode(batch.FileDeleted(id="file-1")), strict=True).deleted
    model = encode(batch.ModelList(data=[batch.ModelObject(id="llama", created=1)]))
    assert json.loads(model)["object"] == "list"
    assert Model.model_validate(json.loads(model)["data"][0], strict=True).owned_by == "ebbtide"
    assert json.loads(encode(batch.BatchDeleted(id="batch_1"))) == {
        "id": "batch_1",
        "object": "batch.deleted",
        "deleted": True,
    }


def test_a_page_of_results_splices_stored_answers() -> None:
    done = batch.ResultItem(
        id="batch_req_1041",
        custom_id="q-1",
        status="completed",
        response=batch.ResultResponse(request_id="req_1", body=msgspec.Raw(b'{"x": 1e0}')),
    )
    failed = batch.ResultItem(
        id="batch_req_1042",
        custom_id="q-2",
        status="failed",
        error=batch.ResultError(code="invalid_request", message="no", status=400),
    )
    unrun = batch.ResultItem(id="batch_req_1043", custom_id="q-3", status="expired", error=never_run("batch_expired"))
    page = batch.ListPage(data=[done, failed, unrun], has_more=False, first_id=done.id, last_id=unrun.id)
    raw = encode(page)
    assert b'"response":{"status_code":200,"request_id":"req_1","body":{"x": 1e0}},"error":null' in raw
    members = json.loads(raw)
    assert list(members) == ["object", "data", "has_more", "first_id", "last_id"]
    assert members["data"][1] == {
        "id": "batch_req_1042",
        "custom_id": "q-2",
        "status": "failed",
        "response": None,
        "error": {"code": "invalid_request", "message": "no", "status": 400},
    }
    assert set(members["data"][2]["error"]) == {"code", "message"}


@given(TEXT, TEXT)
def test_an_output_line_reads_back_and_is_one_line(custom_id: str, content: str) -> None:
    answer = {"choices": [{"message": {"content": content}}]}
    line = output_line(7, custom_id, "req_1", one_line(json.dumps(answer, ensure_ascii=False).encode()))
    assert line.endswith(b"\n")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == {
        "id": "batch_req_7",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": "req_1", "body": answer},
        "error": None,
    }


def test_an_output_line_holds_the_stored_bytes() -> None:
    assert output_line(7, "q", "req_1", b'{"x": 1e0}') == (
        b'{"id":"batch_req_7","custom_id":"q","response":'
        b'{"status_code":200,"request_id":"req_1","body":{"x": 1e0}},"error":null}\n'
    )


@given(TEXT, TEXT)
def test_an_http_failure_keeps_its_status_and_body(custom_id: str, message: str) -> None:
    line = error_line(8, custom_id, "req_2", batch.ResultError(code="rate_limited", message=message, status=429))
    assert len(line.decode().splitlines()) == 1
    error = {"message": message, "type": "rate_limit_error", "param": None, "code": "rate_limited"}
    assert json.loads(line) == {
        "id": "batch_req_8",
        "custom_id": custom_id,
        "response": {"status_code": 429, "request_id": "req_2", "body": {"error": error}},
        "error": None,
    }


@pytest.mark.parametrize("code", ["batch_cancelled", "batch_expired", "batch_failed"])
def test_what_never_ran_has_no_response(code: batch.NeverRun) -> None:
    members = json.loads(error_line(9, "q", None, never_run(code)))
    assert members["response"] is None
    assert members["error"]["code"] == code
    assert set(members["error"]) == {"code", "message"}


def test_a_failure_without_a_status_has_no_response() -> None:
    line = error_line(9, "q", "req_1", batch.ResultError(code="result_too_large", message="a\u2028b"))
    assert json.loads(line)["error"] == {"code": "result_too_large", "message": "a\u2028b"}
    assert len(line.decode().splitlines()) == 1
