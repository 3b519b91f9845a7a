"""/v1/batches: create, list, get, watch, cancel, delete, retry, and the results as pages or as one JSONL export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.files import JSONL
from ebbtide.api.openai.render import batch_list, batch_object, progress_events, result_list
from ebbtide.api.parameters import CursorParameter, HeaderParameter, IntegerParameter, TextParameter
from ebbtide.api.ranges import content_disposition
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches import cancel, intake, progress, resubmit, results
from ebbtide.batches.idempotency import Once, find_replay, knows_key
from ebbtide.batches.intake import Intake, check_may_create
from ebbtide.batches.model import Job
from ebbtide.batches.resubmit import RETRY_OF
from ebbtide.batches.watch import Progress
from ebbtide.delivery.export import check_ended, export_results
from ebbtide.dialects.openai.batch import BatchDeleted, BatchObject, ListPage, ResultItem, encode
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.dialects.openai.requests import CreateBatch, parse_create
from ebbtide.dispatch.translation import check_carried
from ebbtide.errors import InvalidRequest
from ebbtide.ids import result_number
from ebbtide.weight import in_turn

VERSION = "anthropic-version"
AFTER = TextParameter("after", "The id of the last batch of the page before")
LIMIT = IntegerParameter("limit", 20, 1, 100, "Batches in a page")
AFTER_RESULT = CursorParameter("after", "batch_req_<number>", result_number)
IDEMPOTENCY_KEY = HeaderParameter(
    "Idempotency-Key", 255, "Sent again with the same request, answers the batch that the first call created"
)
LIMIT_RESULTS = IntegerParameter("limit", 100, 1, 1_000, "Results in a page; one of about 8 MiB ends early")

SSE = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
HEARTBEAT_SECONDS = 15.0
_HEARTBEAT = b": still here\n\n"
_COME_BACK = b"retry: 2000\n\n"  # milliseconds until a client whose stream broke asks again


async def create_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    settings, key = gateway.settings.current, key_of_create(request)
    if key is None or not await knows_key(gateway.database, principal.account_id, key, gateway.clock.now()):
        check_may_create(principal, settings)
    raw = await read_body(request, settings.batch_max_body_mb * MIB)
    async with in_turn(len(raw)):
        version = request.headers.get(VERSION)
        once = None if key is None else Once(key, await asyncio.to_thread(create_digest, raw, version))
        replayed = await replayed_create(gateway, principal, once)
        if replayed is not None:
            return replayed
        parsed = await asyncio.to_thread(parse_create, raw, settings.batch_max_requests)
        del raw  # its parts live on in `parsed` as long as they are needed
        return answer_json(
            batch_object(await intake.create_batch(intake_of(gateway), principal, parsed, once, version))
        )


async def retry_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    key, batch_id = key_of_create(request), request.path_params["id"]
    if VERSION in request.headers:
        raise InvalidRequest(f"{VERSION} is not allowed: the new batch has the old one's", param=VERSION)
    once = None if key is None else Once(key, create_digest(encode({RETRY_OF: batch_id})))
    replayed = await replayed_create(gateway, principal, once)
    if replayed is not None:
        return replayed
    return answer_json(batch_object(await resubmit.retry_batch(intake_of(gateway), principal, batch_id, once)))


def key_of_create(request: Request) -> str | None:
    """The idempotency key that a call which creates a batch carries; raises InvalidRequest for headers it must not."""
    if "x-on-behalf-of" in request.headers:
        raise InvalidRequest("X-On-Behalf-Of is not allowed: a batch runs under the key that creates it")
    if "anthropic-beta" in request.headers:
        raise InvalidRequest("anthropic-beta is not allowed: batches support no beta", param="anthropic-beta")
    return IDEMPOTENCY_KEY.read(request)


async def replayed_create(gateway: Gateway, principal: Principal, once: Once | None) -> Response | None:
    """The answer of a create that was made before with the same key; None when this is the first."""
    if once is None:
        return None
    job = await find_replay(gateway.database, principal.account_id, once, gateway.moment())
    return None if job is None else answer_json(batch_object(job))


def intake_of(gateway: Gateway) -> Intake:
    """What a create works with: what is in force now."""
    return Intake(gateway.database, gateway.catalog.current, gateway.settings.current, gateway.clock, check_carried)


async def list_batches(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, limit = AFTER.read(request), LIMIT.read(request)
    return answer_json(
        batch_list(await progress.list_batches(gateway.database, principal, after, limit, gateway.moment()))
    )


async def get_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(batch_object(await _batch(gateway, request, principal)))


async def watch_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    """The present state at once, whatever Last-Event-ID says, and each new one until the last.

    Ends a little before its time is over, so that it ends well: the client comes back by itself.
    """
    job = await _batch(gateway, request, principal)
    seconds = gateway.settings.current.stream_request_timeout_seconds * 0.99
    return Streamed(_events(job.id, gateway.watch.follow(job, quiet=HEARTBEAT_SECONDS, seconds=seconds)), headers=SSE)


async def _events(batch_id: str, states: AsyncGenerator[Progress | None, None]) -> AsyncIterator[bytes]:
    yield _COME_BACK
    async with aclosing(states):
        async for state in states:
            yield _HEARTBEAT if state is None else progress_events(batch_id, state)


async def cancel_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    batch_id = request.path_params["id"]
    return answer_json(
        batch_object(await cancel.cancel_batch(gateway.database, principal, batch_id, gateway.clock.now()))
    )


async def delete_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    batch_id = request.path_params["id"]
    await cancel.delete_batch(gateway.database, principal, batch_id, gateway.clock.now())
    return answer_json(BatchDeleted(id=batch_id))


async def list_results(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, limit = AFTER_RESULT.read(request), LIMIT_RESULTS.read(request)
    job = await _batch(gateway, request, principal)
    page = await results.list_results(gateway.database, job, after, limit)
    return Response(await asyncio.to_thread(result_list, page), media_type="application/json")


async def export_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await _batch(gateway, request, principal)
    check_ended(job)
    headers = {"content-type": JSONL, "content-disposition": content_disposition(f"{job.id}_output.jsonl")}
    longest = gateway.settings.current.stream_request_timeout_seconds
    return Streamed(export_results(gateway.database, job, longest), headers=headers)


async def _batch(gateway: Gateway, request: Request, principal: Principal) -> Job:
    return await progress.get_batch(gateway.database, principal, request.path_params["id"], gateway.moment())


_ONE = Described(answer=BatchObject, errors=(404,))

ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/batches",
        create_batch,
        "Create a batch",
        Described(
            request=CreateBatch,
            answer=BatchObject,
            parameters=(IDEMPOTENCY_KEY,),
            errors=(400, 403, 409, 410, 413, 429),
        ),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1/batches",
        list_batches,
        "List your batches, newest first",
        Described(answer=ListPage[BatchObject], parameters=(AFTER, LIMIT), errors=(400,)),
        batch=True,
    ),
    Closed("GET", "/v1/batches/{id}", get_batch, "Get a batch", _ONE, batch=True),
    Closed(
        "GET",
        "/v1/batches/{id}/events",
        watch_batch,
        "Watch a batch's progress, as events until it has ended",
        Described(answer="text/event-stream", errors=(404,)),
        batch=True,
    ),
    Closed("POST", "/v1/batches/{id}/cancel", cancel_batch, "Cancel a batch", _ONE, batch=True),
    Closed(
        "POST",
        "/v1/batches/{id}/retry",
        retry_batch,
        "Create a batch of an ended batch's failed, expired and cancelled requests",
        Described(answer=BatchObject, parameters=(IDEMPOTENCY_KEY,), errors=(400, 403, 404, 409, 410, 413, 429)),
        batch=True,
    ),
    Closed(
        "DELETE",
        "/v1/batches/{id}",
        delete_batch,
        "Delete a batch with its results",
        Described(answer=BatchDeleted, errors=(404, 409)),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1/batches/{id}/results",
        list_results,
        "Page through a batch's requests and their outcomes",
        Described(answer=ListPage[ResultItem], parameters=(AFTER_RESULT, LIMIT_RESULTS), errors=(400, 404)),
        batch=True,
    ),
    Closed(
        "GET",
        "/v1/batches/{id}/output.jsonl",
        export_batch,
        "Export a batch's results as JSONL, once it has ended",
        Described(answer=JSONL, errors=(404, 409)),
        batch=True,
    ),
)
