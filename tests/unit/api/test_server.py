"""The front door: whatever is raised behind it becomes one answer in shape, and tells nothing it should not."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest
import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.testing import capture_logs
from tests.logs import told

from ebbtide.api.server import FrontDoor
from ebbtide.errors import Conflict, EbbtideError, LimitReached, NotFound, Unavailable, UpstreamFailed

Message = MutableMapping[str, Any]


async def knock(router: ASGIApp, *headers: tuple[bytes, bytes]) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": list(headers)}
    await FrontDoor(router)(scope, receive, send)
    structlog.contextvars.clear_contextvars()
    return sent


def raising(error: BaseException, *, after_start: bool = False) -> ASGIApp:
    async def router(scope: Scope, receive: Receive, send: Send) -> None:
        if after_start:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return router


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("no"), 404),
        (Conflict("no"), 409),
        (LimitReached("no", retry_after=3), 429),
        (Unavailable("no", retry_after=3), 503),
        (UpstreamFailed("no", status=504), 504),
        (EbbtideError("no"), 500),
        (asyncio.CancelledError(), 503),
    ],
)
async def test_an_error_is_answered_in_shape(error: BaseException, status: int) -> None:
    start, body = await knock(raising(error))
    assert start["status"] == status
    assert set(msgspec.json.decode(body["body"])["error"]) == {"message", "type", "param", "code"}
    assert b"x-request-id" in dict(start["headers"])


async def test_the_unexpected_is_logged_and_told_without_its_inside() -> None:
    with capture_logs() as logs:
        start, body = await knock(raising(RuntimeError("secret thing")))
    assert start["status"] == 500
    assert b"secret" not in body["body"]
    assert [entry["exc_info"] for entry in told(logs, "request_failed")] == [True]


async def test_a_broken_answer_is_broken_off_and_nothing_added() -> None:
    with capture_logs() as logs:
        sent = await knock(raising(Unavailable("gone"), after_start=True))
    assert [message["type"] for message in sent] == ["http.response.start"]
    assert len(told(logs, "answer_broken_off")) == 1


async def test_a_client_that_went_is_told_nothing() -> None:
    assert await knock(raising(ClientDisconnect())) == []


async def test_the_request_id_comes_back() -> None:
    start, _ = await knock(raising(NotFound("no")), (b"x-request-id", b"abc-1"))
    assert dict(start["headers"])[b"x-request-id"] == b"abc-1"
