"""Anthropic's Message Batches: not served. Whoever calls any of its operations is told where batches are made."""

from __future__ import annotations

from typing import Final, NoReturn

from starlette.requests import Request

from ebbtide.api.anthropic.messages import PREFIXES
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import BATCHES_OFF, Described, Endpoint, Open
from ebbtide.errors import Gone, NotFound

_POINTER: Final = (
    "Message Batches are not served: create a batch with POST /v1/batches, each request's url /v1/messages, and the "
    "header anthropic-version"
)
_OPERATIONS: Final = (
    ("POST", "", "Create a message batch"),
    ("GET", "", "List message batches"),
    ("GET", "/{id}", "Get a message batch"),
    ("DELETE", "/{id}", "Delete a message batch"),
    ("POST", "/{id}/cancel", "Cancel a message batch"),
    ("GET", "/{id}/results", "Read a message batch's results"),
)


async def refuse_message_batches(gateway: Gateway, request: Request) -> NoReturn:
    if not gateway.settings.current.batch_enabled:
        raise NotFound(BATCHES_OFF)
    raise Gone(_POINTER)


ROUTES: tuple[Endpoint, ...] = tuple(
    Open(
        method,
        f"{prefix}/v1/messages/batches{path}",
        refuse_message_batches,
        f"{summary}: not served, use /v1/batches",
        Described(errors=(404, 410)),
    )
    for prefix in PREFIXES
    for method, path, summary in _OPERATIONS
)
