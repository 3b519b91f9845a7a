"""What holds for every route: keys, errors in one shape, request ids, unknown paths, the description of it all."""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openapi_spec_validator import validate
from tests.gateway import TestGateway, start_gateway

from ebbtide.accounts.roles import Role
from ebbtide.api.routing import Closed, Open, Switched
from ebbtide.api.server import ENDPOINTS

_ID = re.compile(r"{\w+(?::path)?}")
OIDC = {"/session/oidc/start", "/session/oidc/callback"}
OPEN = {
    "/",
    "/console",
    "/console/{path:path}",
    "/health",
    "/health/ready",
    "/openapi.json",
    "/session",
    "/setup",
    "/upload/v1beta/files/{secret}",
    *OIDC,
}


async def test_every_route_but_the_open_ones_asks_for_a_key(gateway: TestGateway) -> None:
    for endpoint in ENDPOINTS:
        path = _ID.sub("some-id", endpoint.path)
        for key in (None, "ebb-" + "x" * 43, "nonsense"):
            answer = await gateway.call(endpoint.method, path, key=key)
            if isinstance(endpoint, Switched):
                assert answer.status == 410  # not served: whoever calls learns it
            elif isinstance(endpoint, Open):
                assert endpoint.path in OPEN
                if endpoint.path in OIDC:
                    assert answer.status == 404  # it is not set up
                    continue
                if endpoint.path == "/":
                    assert answer.headers["location"] == "/console"
                    continue
                assert answer.status == (200 if endpoint.method == "GET" else 400)  # nothing was sent
            else:
                assert answer.status == 401, endpoint
                told = answer.error.get("type") or answer.error["status"]
                assert told in {"authentication_error", "UNAUTHENTICATED"}
                assert answer.headers["www-authenticate"] == "Bearer"


async def test_no_role_but_the_highest_is_needed_to_read_what_is_open_to_keys(gateway: TestGateway) -> None:
    key = await gateway.new_key("free", Role.FREE)
    for path in ("/v1/models", "/v1/batches", "/v1/files"):
        assert (await gateway.call("GET", path, key=key)).status == 200


async def test_both_headers_with_one_key_do_and_with_two_do_not(gateway: TestGateway) -> None:
    key = await gateway.new_key("someone", Role.PRO)
    both = await gateway.call("GET", "/v1/models", headers={"X-API-Key": gateway.admin_key})
    assert both.status == 200
    differing = await gateway.call("GET", "/v1/models", headers={"X-API-Key": key})
    assert differing.status == 401
    alone = await gateway.call("GET", "/v1/models", key=None, headers={"x-api-key": key})
    assert alone.status == 200


async def test_unknown_paths_and_methods(gateway: TestGateway) -> None:
    for path in ("/v1", "/v1/batches/", "/v1/nothing", "/v1/batches/a/b/c", "/v1/files/a%00b"):
        answer = await gateway.call("GET", path)
        assert answer.status == 404, path
        assert answer.error["code"] == 404
        assert answer.headers["x-content-type-options"] == "nosniff"
    answer = await gateway.call("PATCH", "/v1/batches")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert answer.error["code"] == "method_not_allowed"
    google = await gateway.call("PATCH", "/v1beta/batches")
    assert (google.status, google.error["code"], google.headers["allow"]) == (405, 405, "GET, HEAD")


async def test_head_answers_where_get_does(gateway: TestGateway) -> None:
    for path in ("/health", "/v1/models", "/v1/batches"):
        got, head = await gateway.call("GET", path), await gateway.call("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]
    assert (await gateway.call("HEAD", "/v1/chat/completions")).status == 405


async def test_request_ids_are_adopted_or_made(gateway: TestGateway) -> None:
    adopted = await gateway.call("GET", "/health", headers={"X-Request-ID": "my id/1"})
    assert adopted.headers["x-request-id"] == "my id/1"
    for given in ("", "x" * 129, "caf\u00e9"):
        made = await gateway.call("GET", "/v1/nothing", headers={"X-Request-ID": given})
        assert re.fullmatch("req_[0-9a-f]{32}", made.headers["x-request-id"])


async def test_health_and_readiness(gateway: TestGateway) -> None:
    assert (await gateway.call("GET", "/health", key=None)).json["status"] == "ok"
    ready = await gateway.call("GET", "/health/ready", key=None)
    assert ready.status == 200
    assert set(ready.json["checks"].values()) == {"ok"}
    assert {"database", "models", "catalog"} <= set(ready.json["checks"])


async def test_not_ready_without_models(database_url: str, tmp_path: Path) -> None:
    empty = tmp_path / "none.yaml"
    empty.write_text("models: []\n")
    async with start_gateway(database_url, empty, role="api") as gateway:
        ready = await gateway.call("GET", "/health/ready", key=None)
        assert ready.status == 503
        assert ready.json["status"] == "not_ready"
        assert ready.json["checks"]["models"] != "ok"


async def test_batch_routes_are_gone_while_batches_are_off(database_url: str, models: Path) -> None:
    async with start_gateway(database_url, models, role="api", environ={"BATCH_ENABLED": "off"}) as gateway:
        for endpoint in ENDPOINTS:
            if isinstance(endpoint, Closed) and endpoint.path.startswith(("/v1/batches", "/v1/files")):
                assert endpoint.batch
                answer = await gateway.call(endpoint.method, _ID.sub("some-id", endpoint.path))
                assert answer.status == 404
                assert "not available" in answer.error["message"]
        assert (await gateway.call("GET", "/v1/models")).status == 200


async def test_the_description_is_valid_and_whole(gateway: TestGateway) -> None:
    document = (await gateway.call("GET", "/openapi.json", key=None)).json
    validate(document)
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert told == {(endpoint.method, endpoint.path.replace(":path", "")) for endpoint in ENDPOINTS}
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path.replace(":path", "")][endpoint.method.lower()]
        assert bool(operation["security"]) is isinstance(endpoint, Closed)
        refuses = isinstance(endpoint, Closed) or (endpoint.method, endpoint.path) == ("POST", "/session")
        assert ("401" in operation["responses"]) is refuses
    batch = document["components"]["schemas"]["BatchObject"]
    assert {"status", "request_counts", "cost_usd"} <= set(batch["required"])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": NaN}', b'{"model": 1}', b"[" * 100_000])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/batches"])
async def test_a_body_that_is_no_request_is_a_400(gateway: TestGateway, path: str, body: bytes) -> None:
    answer = await gateway.call("POST", path, data=body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


async def test_a_compressed_body_is_refused(gateway: TestGateway) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    answer = await gateway.call("POST", "/v1/batches", data=b"\x1f\x8b", headers=headers)
    assert answer.status == 400


async def test_a_body_over_the_limit_is_refused_by_its_length_and_by_count(gateway: TestGateway) -> None:
    for path in ("/v1/batches", "/v1/chat/completions"):
        by_length = await gateway.call("POST", path, data=io.BytesIO(b" " * ((32 << 20) + 1)))
        by_count = await gateway.call("POST", path, data=_mebibytes(33))
        for answer in (by_length, by_count):
            assert answer.status == 413, path
            assert answer.error["code"] == 413


async def _mebibytes(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * (1 << 20)
