"""Anthropic's Message Batches, where BATCH_MESSAGE_BATCHES is on: create, list, get, cancel, delete, results.

Where it is off, whoever calls any of them is told where batches are made now, with a key or without.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json
from ebbtide.api.anthropic.messages import PREFIXES
from ebbtide.api.anthropic.render import message_batch, message_batch_page
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.dialect import VERSION
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.batches import intake_of, key_of_create
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.routing import Described, Endpoint, Switched
from ebbtide.batches import cancel, message_batches
from ebbtide.batches.idempotency import Once, find_replay
from ebbtide.delivery.export import export_lines
from ebbtide.delivery.message_lines import message_line
from ebbtide.dialects.anthropic.batch import (
    CreateMessageBatch,
    MessageBatch,
    MessageBatchDeleted,
    MessageBatchPage,
    parse_create,
)
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.errors import Gone, InvalidRequest
from ebbtide.weight import in_turn

JSONL: Final = "application/x-jsonl"
AFTER: Final = TextParameter("after_id", "The last_id of the page before")
BEFORE: Final = TextParameter("before_id", "The first_id of the page after")
LIMIT: Final = IntegerParameter("limit", 20, 1, 1_000, "Batches in a page")
_POINTER: Final = (
    "Message Batches are not served: create a batch with POST /v1/batches, each request's url /v1/messages, and the "
    "header anthropic-version"
)


def _gate(gateway: Gateway) -> None:
    settings = gateway.settings.current
    if settings.batch_enabled and not settings.batch_message_batches:
        raise Gone(_POINTER)


async def create_message_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    key, version = key_of_create(request), request.headers.get(VERSION)
    settings = gateway.settings.current
    raw = await read_body(request, settings.batch_max_body_mb * MIB)
    async with in_turn(len(raw)):
        once = None if key is None else Once(key, await asyncio.to_thread(create_digest, raw, version))
        if once is not None:
            made = await find_replay(gateway.database, principal.account_id, once, gateway.moment())
            if made is not None:
                return answer_json(message_batch(made, request))
        create = await asyncio.to_thread(parse_create, raw, settings.batch_max_requests)
        del raw
        intake = intake_of(gateway)
        job = await message_batches.create_message_batch(intake, principal, create, once, version)
        return answer_json(message_batch(job, request))


async def list_message_batches(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, before, limit = AFTER.read(request), BEFORE.read(request), LIMIT.read(request)
    if after is not None and before is not None:
        raise InvalidRequest("Give after_id or before_id, not both", param="before_id")
    jobs, more = await message_batches.list_message_batches(gateway.database, principal, after, before, limit)
    return answer_json(message_batch_page(jobs, request, has_more=more))


async def get_message_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await message_batches.get_message_batch(gateway.database, principal, request.path_params["id"])
    return answer_json(message_batch(job, request))


async def cancel_message_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await message_batches.get_message_batch(gateway.database, principal, request.path_params["id"])
    now = gateway.clock.now()
    return answer_json(message_batch(await cancel.cancel_batch(gateway.database, principal, job.id, now), request))


async def delete_message_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await message_batches.get_message_batch(gateway.database, principal, request.path_params["id"])
    if not job.has_ended:
        raise InvalidRequest("The batch has not ended: cancel it and wait until it has, then delete it")
    await cancel.delete_batch(gateway.database, principal, job.id, gateway.clock.now())
    return answer_json(MessageBatchDeleted(id=job.id))


async def stream_message_batch_results(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await message_batches.get_message_batch(gateway.database, principal, request.path_params["id"])
    if not job.has_ended:
        raise InvalidRequest("The batch has not ended: its results can be read once it has")
    seconds = gateway.settings.current.stream_request_timeout_seconds
    lines = export_lines(gateway.database, job, seconds, message_line)
    return Streamed(lines, headers={"content-type": JSONL})


_ONE = Described(answer=MessageBatch, errors=(404, 410))
_OPERATIONS: Final = (
    (
        "POST",
        "",
        create_message_batch,
        "Create a message batch",
        Described(request=CreateMessageBatch, answer=MessageBatch, errors=(400, 403, 404, 409, 410, 413, 429)),
    ),
    (
        "GET",
        "",
        list_message_batches,
        "List your message batches, newest first",
        Described(answer=MessageBatchPage, parameters=(AFTER, BEFORE, LIMIT), errors=(400, 404, 410)),
    ),
    ("GET", "/{id}", get_message_batch, "Get a message batch", _ONE),
    ("POST", "/{id}/cancel", cancel_message_batch, "Cancel a message batch", _ONE),
    (
        "DELETE",
        "/{id}",
        delete_message_batch,
        "Delete a message batch that has ended",
        Described(answer=MessageBatchDeleted, errors=(400, 404, 410)),
    ),
    (
        "GET",
        "/{id}/results",
        stream_message_batch_results,
        "Read the results of a message batch that has ended, as JSONL",
        Described(answer=JSONL, errors=(400, 404, 410)),
    ),
)

ROUTES: tuple[Endpoint, ...] = tuple(
    Switched(method, f"{prefix}/v1/messages/batches{path}", handler, summary, described, batch=True, gate=_gate)
    for prefix in PREFIXES
    for method, path, handler, summary, described in _OPERATIONS
)
