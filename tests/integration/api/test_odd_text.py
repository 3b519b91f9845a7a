"""Text that PostgreSQL cannot keep, at every place where text comes in: refused in words, never a failure of ours."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.gateway import TestGateway, request_line

from ebbtide.api.parameters import TextParameter
from ebbtide.api.routing import Closed
from ebbtide.api.server import ENDPOINTS

NUL = "a\0b"
CHAT = request_line("a")
FILE = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
_CLOSED = [endpoint for endpoint in ENDPOINTS if isinstance(endpoint, Closed)]


@pytest.mark.parametrize("odd", ["%00", "a%00b", "%ED%A0%80", "%FF"])
async def test_in_a_path(gateway: TestGateway, odd: str) -> None:
    for endpoint in _CLOSED:
        if "{" in endpoint.path:
            path = re.sub(r"\{.*?\}", odd, endpoint.path)
            body = {"max_concurrency": 1} if endpoint.method == "PATCH" else None
            answer = await gateway.call(endpoint.method, path, json=body)
            gone = "/v1/messages/batches" in endpoint.path  # switched off: 410, whatever the path names
            assert answer.status in ((400, 404, 410) if gone else (400, 404)), (endpoint.method, path)


@pytest.mark.parametrize("odd", ["%00", "a%00b", "%ED%A0%80", "%FF"])
async def test_in_a_query(gateway: TestGateway, odd: str) -> None:
    batch = (await gateway.call("POST", "/v1/batches", json={"requests": [CHAT]})).json["id"]
    for endpoint in _CLOSED:
        for parameter in endpoint.described.parameters:
            if isinstance(parameter, TextParameter):
                path = re.sub(r"\{.*?\}", batch, endpoint.path)
                answer = await gateway.call(endpoint.method, f"{path}?{parameter.name}={odd}")
                assert answer.status < 500, (path, parameter.name)
                if "00" in odd and answer.status != 410:  # gone for everybody, whatever is asked
                    assert answer.status == 400, (path, parameter.name)
                    assert parameter.name in (answer.error.get("param"), *answer.error["message"].split("'"))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/batches", FILE | {"input_file_id": NUL}),
        ("POST", "/v1/batches", FILE | {"input_file_id": "file-x", "endpoint": NUL}),
        ("POST", "/v1/batches", {"requests": [CHAT], "metadata": {"k": NUL}}),
        ("POST", "/v1/batches", {"requests": [CHAT], "metadata": {NUL: "v"}}),
        ("POST", "/v1/batches", {"requests": [request_line(NUL)]}),
        ("POST", "/v1/batches", {"requests": [request_line("a", NUL)]}),
        ("POST", "/v1/batches", {"requests": [CHAT | {"url": NUL}]}),
        ("POST", "/v1/chat/completions", request_line("a", NUL)["body"]),
        ("POST", "/v1/embeddings", {"model": NUL, "input": "x"}),
        ("PUT", "/v1/batch_webhook", {"url": f"https://hooks.example.com/{NUL}"}),
        ("PATCH", "/admin/config", {NUL: "x"}),
        ("PATCH", "/admin/config", {"BATCH_MIN_ROLE": NUL}),
        ("PATCH", "/admin/config", {"ALERT_WEBHOOK_URL": f"https://hooks.example.com/{NUL}"}),
        ("PATCH", "/admin/config", {"ALERT_WEBHOOK_URL": NUL}),
    ],
)
async def test_in_a_body(gateway: TestGateway, method: str, path: str, body: Any) -> None:
    answer = await gateway.call(method, path, json=body)
    assert answer.status in (400, 404), answer.body


@pytest.mark.parametrize("disposition", ['filename="a\0b"', "filename*=utf-8''a%00b", "filename*=utf-8''%ED%A0%80"])
async def test_in_the_name_of_a_file(gateway: TestGateway, disposition: str) -> None:
    head = '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
    form = f'{head}Content-Disposition: form-data; name="file"; {disposition}\r\n\r\n{{}}\r\n--b--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = await gateway.call("POST", "/v1/files", data=form.encode(), headers=headers)
    assert answer.status == (200 if "ED" in disposition else 400), answer.body
