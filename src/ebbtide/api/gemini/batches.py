"""Gemini's batches: create for content and for embeddings, get, list, cancel, delete. The engine is everyone's."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.gemini.inference import MODEL
from ebbtide.api.gemini.pages import PAGE_SIZE, PAGE_TOKEN, page_asked
from ebbtide.api.gemini.render import operation
from ebbtide.api.openai.batches import IDEMPOTENCY_KEY, intake_of, key_of_create
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches import cancel, gemini_batches
from ebbtide.batches.gemini_batches import GeminiJob
from ebbtide.batches.idempotency import Once, find_replay
from ebbtide.batches.stored import list_stored
from ebbtide.delivery.gemini_lines import inline_answer
from ebbtide.dialects.gemini.batch import Operation, Operations, parse_create, responses_inline
from ebbtide.dialects.gemini.files import batch_id, batch_name
from ebbtide.dialects.gemini.wire import CreateGeminiBatchRequest, Empty
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.dialects.values import Target
from ebbtide.errors import InvalidRequest, NotFound
from ebbtide.files.leases import reading
from ebbtide.weight import in_turn

INLINE_BYTES: Final = 20 * MIB  # of a create call: what is larger comes as a file
_PAGE: Final = 1_000
_EMPTY: Final = Empty()


async def batch_generate_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await _create(gateway, request, principal, "gemini")


async def async_batch_embed_content(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await _create(gateway, request, principal, "gemini_embed")


async def _create(gateway: Gateway, request: Request, principal: Principal, target: Target) -> Response:
    settings, model, key = gateway.settings.current, request.path_params["model"], key_of_create(request)
    raw = await read_body(request, min(INLINE_BYTES, settings.batch_max_body_mb * MIB))
    async with in_turn(len(raw)):
        once = None if key is None else Once(key, await asyncio.to_thread(_digest, raw, target, model))
        made = (
            None if once is None else await find_replay(gateway.database, principal.account_id, once, gateway.moment())
        )
        if made is None:
            create = await asyncio.to_thread(parse_create, raw, settings.batch_max_requests, model)
            del raw
            ask = (target, model)
            made = await gemini_batches.create_gemini_batch(intake_of(gateway), principal, ask, create, once)
    [told] = await gemini_batches.with_details(gateway.database, [made])
    return answer_json(operation(told))


def _digest(raw: bytes, target: Target, model: str) -> bytes:
    """What a create call says, its path included."""
    return hashlib.sha256(f"{target}\0{model}\0".encode() + create_digest(raw)).digest()


async def get_gemini_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    told = await _told(gateway, request, principal)
    if not told.job.has_ended or told.job.from_file:
        return answer_json(operation(told))
    inline = await _read_inline(gateway, told)
    return answer_json(operation(told, inline))


async def list_gemini_batches(gateway: Gateway, request: Request, principal: Principal) -> Response:
    """Without inline answers: a page of them would be as large as all their batches together."""
    token, size = page_asked(request)
    after = None if token is None else batch_id(token)
    if token is not None and after is None:
        raise InvalidRequest("pageToken is none that a page before told", param="pageToken")
    jobs, more = await gemini_batches.list_gemini_batches(gateway.database, principal, after, size)
    page = Operations(operations=[operation(told) for told in jobs])
    if more and jobs:
        last = batch_name(jobs[-1].job.id).removeprefix("batches/")
        page = msgspec.structs.replace(page, next_page_token=last)
    return answer_json(page)


async def cancel_gemini_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    told = await _told(gateway, request, principal)
    await cancel.cancel_batch(gateway.database, principal, told.job.id, gateway.clock.now())
    return answer_json(_EMPTY)


async def delete_gemini_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    told = await _told(gateway, request, principal)
    await cancel.delete_batch(gateway.database, principal, told.job.id, gateway.clock.now())
    return answer_json(_EMPTY)


async def _read_inline(gateway: Gateway, told: GeminiJob) -> msgspec.Raw | None:
    """The answers of a batch that has ended, in the order of its requests."""
    answers: list[dict[str, object]] = []
    after, more = None, True
    seconds = gateway.settings.current.request_timeout_seconds
    async with reading(gateway.database, seconds=seconds, batch_no=told.job.no):
        while more:
            page = await list_stored(gateway.database, told.job, after, _PAGE)
            answers += await asyncio.to_thread(lambda items: [inline_answer(one) for one in items], page.items)
            after, more = page.items[-1].result.id if page.items else None, page.has_more
    return await asyncio.to_thread(responses_inline, answers) if answers else None


async def _told(gateway: Gateway, request: Request, principal: Principal) -> GeminiJob:
    """The batch that the path names. Raises NotFound in the path's own words."""
    name = request.path_params["id"]
    try:
        return await gemini_batches.get_gemini_batch(gateway.database, principal, batch_id(name) or name)
    except NotFound:
        raise NotFound(f"No such batch: batches/{name}") from None


_CREATED: Final = Described(
    request=CreateGeminiBatchRequest,
    answer=Operation,
    parameters=(IDEMPOTENCY_KEY,),
    errors=(400, 403, 404, 409, 410, 413, 429),
)

ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        f"{MODEL}:batchGenerateContent",
        batch_generate_content,
        "Create a batch of generateContent requests",
        _CREATED,
        batch=True,
    ),
    Closed(
        "POST",
        f"{MODEL}:asyncBatchEmbedContent",
        async_batch_embed_content,
        "Create a batch of embedContent requests",
        _CREATED,
        batch=True,
    ),
    Closed(
        "GET",
        "/v1beta/batches",
        list_gemini_batches,
        "List your batches that were made through Gemini's API, newest first",
        Described(answer=Operations, parameters=(PAGE_SIZE, PAGE_TOKEN), errors=(400, 404)),
        batch=True,
    ),
    Closed(
        "POST",
        "/v1beta/batches/{id}:cancel",
        cancel_gemini_batch,
        "Cancel a batch",
        Described(answer=Empty, errors=(404,)),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1beta/batches/{id}",
        get_gemini_batch,
        "Get a batch, with its answers once it has ended",
        Described(answer=Operation, errors=(404,)),
        batch=True,
    ),
    Closed(
        "DELETE",
        "/v1beta/batches/{id}",
        delete_gemini_batch,
        "Delete a batch with its results",
        Described(answer=Empty, errors=(404, 409)),
        batch=True,
    ),
)
