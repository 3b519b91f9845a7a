"""Every error has one status, one type and one body."""

from __future__ import annotations

import json

import pytest

from ebbtide import errors
from ebbtide.dialects.openai.errors import render_error


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.InvalidRequest("m"), 400, "invalid_request_error"),
        (errors.Unauthenticated("m"), 401, "authentication_error"),
        (errors.Forbidden("m"), 403, "permission_error"),
        (errors.NotFound("m"), 404, "not_found_error"),
        (errors.Conflict("m"), 409, "conflict_error"),
        (errors.Gone("m"), 410, "invalid_request_error"),
        (errors.TooLarge("m"), 413, "invalid_request_error"),
        (errors.LimitReached("m"), 429, "rate_limit_error"),
        (errors.Unavailable("m"), 503, "server_error"),
        (errors.UpstreamFailed("m", status=502), 502, "server_error"),
        (errors.UpstreamFailed("m", status=422), 422, "invalid_request_error"),
    ],
)
def test_each_kind_has_its_status_and_type(error: errors.EbbtideError, status: int, kind: str) -> None:
    found, headers, body = render_error(error)
    assert found == status
    assert json.loads(body) == {"error": {"message": "m", "type": kind, "param": None, "code": status}}
    assert headers["content-type"] == "application/json"


def test_every_kind_is_in_the_table_or_a_secret() -> None:
    def kinds(parent: type[errors.EbbtideError]) -> list[type[errors.EbbtideError]]:
        return [kind for child in parent.__subclasses__() for kind in (child, *kinds(child))]

    tree = [kind for kind in kinds(errors.EbbtideError) if kind.__module__ == errors.__name__]
    made: dict[type[errors.EbbtideError], errors.EbbtideError] = {
        errors.MethodNotAllowed: errors.MethodNotAllowed("GET", ["POST"])
    }
    told = [made.get(kind) or kind("m") for kind in tree if kind not in (errors.SetupError, errors.UpstreamFailed)]
    assert told
    for error in told:
        assert render_error(error)[0] != 500


def test_a_named_code_and_the_field_are_told() -> None:
    body = json.loads(render_error(errors.InvalidRequest("no", code="batch_route_unavailable", param="model"))[2])
    assert body["error"]["code"] == "batch_route_unavailable"
    assert body["error"]["param"] == "model"


@pytest.mark.parametrize("error", [errors.SetupError("/secret/path"), errors.EbbtideError("/secret/path")])
def test_what_is_not_the_callers_affair_is_not_told(error: errors.EbbtideError) -> None:
    status, _, body = render_error(error)
    assert status == 500
    assert b"secret" not in body


def test_a_missing_key_says_how_to_sign_in() -> None:
    assert render_error(errors.Unauthenticated("m"))[1]["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("error", "retry_after", "should_retry"),
    [
        (errors.Conflict("m"), None, "false"),
        (errors.LimitReached("m"), None, "false"),
        (errors.LimitReached("m", retry_after=0.2), "1", None),
        (errors.LimitReached("m", retry_after=-3), "0", None),
        (errors.LimitReached("m", retry_after=36_000), "36000", "false"),
        (errors.Unavailable("m", retry_after=5), "5", None),
        (errors.Unavailable("m"), None, None),
        (errors.InvalidRequest("m"), None, None),
        (errors.UpstreamFailed("m", status=409), None, "false"),
    ],
)
def test_clients_learn_whether_to_try_again(
    error: errors.EbbtideError, retry_after: str | None, should_retry: str | None
) -> None:
    headers = render_error(error)[1]
    assert headers.get("retry-after") == retry_after
    assert headers.get("x-should-retry") == should_retry
