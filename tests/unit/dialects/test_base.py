"""Every row of the tables is whole: a target that is an endpoint has its caller, and what it needs of a server."""

from __future__ import annotations

import json

import pytest

from ebbtide.dialects.targets import CALLERS, SERVERS, carried_as
from ebbtide.dialects.values import ENDPOINTS, STANDARD, Target
from ebbtide.errors import InvalidRequest, NotFound


@pytest.mark.parametrize("target", [endpoint.target for endpoint in ENDPOINTS])
def test_a_target_has_its_rows(target: Target) -> None:
    caller = CALLERS[target]
    assert caller.render_error(NotFound("m"), "req_1")[0] == 404
    assert b'"m"' in caller.pass_stream("mine", True).fail(NotFound("m"), "req_1")
    assert caller.pass_stream("llama", True).close() == []
    with pytest.raises(InvalidRequest):
        caller.parse_body(b"{}", STANDARD)
    with pytest.raises(InvalidRequest):
        caller.check_batch_body({}, STANDARD)
    with pytest.raises(InvalidRequest):
        caller.read_request(json.dumps({"unheard": 1}).encode())


def test_a_request_goes_in_its_own_form_else_in_one_that_means_the_same() -> None:
    assert carried_as("messages", ("chat", "messages")) == "messages"
    assert carried_as("messages", ("embeddings", "chat", "gemini")) == "chat"
    assert carried_as("embeddings", ("gemini", "gemini_embeddings")) == "gemini_embeddings"
    assert carried_as("embeddings", ("chat", "messages")) is None
    assert all(carried_as(endpoint.target, tuple(SERVERS)) == endpoint.target for endpoint in ENDPOINTS)
