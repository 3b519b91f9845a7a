"""/v1/batches: create, list, get, cancel, delete, and the results as pages or as one JSONL export."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.roles import Role
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import Streamed, answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.files import JSONL
from ebbtide.api.openai.render import batch_list, batch_object, result_list
from ebbtide.api.parameters import IntegerParameter, TextParameter
from ebbtide.api.ranges import content_disposition
from ebbtide.api.routing import Closed, Described, Endpoint, Timeout
from ebbtide.batches.cancel import cancel_batch as stop_batch
from ebbtide.batches.cancel import delete_batch as remove_batch
from ebbtide.batches.intake import Intake
from ebbtide.batches.intake import create_batch as store_batch
from ebbtide.batches.model import Job
from ebbtide.batches.progress import get_batch as find_batch
from ebbtide.batches.progress import list_batches as find_batches
from ebbtide.batches.results import list_results as find_results
from ebbtide.delivery.export import check_ended, export_results
from ebbtide.dialects.openai.batch import BatchDeleted, BatchObject, ListPage, ResultItem
from ebbtide.dialects.openai.requests import CreateBatch, parse_create
from ebbtide.errors import Forbidden, InvalidRequest
from ebbtide.ids import result_number

AFTER = TextParameter("after", "The id of the last batch of the page before")
LIMIT = IntegerParameter("limit", 20, 1, 100, "Batches in a page")
AFTER_RESULT = TextParameter("after", "The last_id of the page before, `batch_req_<number>`")
LIMIT_RESULTS = IntegerParameter("limit", 100, 1, 1_000, "Results in a page; one of about 8 MiB ends early")


async def create_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    settings = gateway.settings.current
    if "x-on-behalf-of" in request.headers:
        raise InvalidRequest("X-On-Behalf-Of is not allowed: a batch runs under the key that creates it")
    if principal.role < Role(settings.batch_min_role):
        raise Forbidden("Your role may not create batches")
    raw = await read_body(request, settings.batch_max_body_mb * MIB)
    create = await asyncio.to_thread(parse_create, raw)
    del raw  # its parts live on in `create` as long as they are needed
    intake = Intake(gateway.database, gateway.catalog.current, settings, gateway.clock)
    return answer_json(batch_object(await store_batch(intake, principal, create)))


async def list_batches(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await find_batches(gateway.database, principal, AFTER.read(request), LIMIT.read(request))
    return answer_json(batch_list(page))


async def get_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return answer_json(batch_object(await _batch(gateway, request, principal)))


async def cancel_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    batch_id = request.path_params["id"]
    return answer_json(batch_object(await stop_batch(gateway.database, principal, batch_id, gateway.clock.now())))


async def delete_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    batch_id = request.path_params["id"]
    await remove_batch(gateway.database, principal, batch_id, gateway.clock.now())
    return answer_json(BatchDeleted(id=batch_id))


async def list_results(gateway: Gateway, request: Request, principal: Principal) -> Response:
    after, limit = _cursor(request), LIMIT_RESULTS.read(request)
    job = await _batch(gateway, request, principal)
    page = await find_results(gateway.database, job, after, limit)
    return Response(await asyncio.to_thread(result_list, page), media_type="application/json")


async def export_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    job = await _batch(gateway, request, principal)
    check_ended(job)
    headers = {"content-type": JSONL, "content-disposition": content_disposition(f"{job.id}_output.jsonl")}
    return Streamed(export_results(gateway.database, job), headers=headers)


async def _batch(gateway: Gateway, request: Request, principal: Principal) -> Job:
    return await find_batch(gateway.database, principal, request.path_params["id"])


def _cursor(request: Request) -> int | None:
    after = AFTER_RESULT.read(request)
    if after is None:
        return None
    number = result_number(after)
    if number is None:
        raise InvalidRequest("'after' must be the id of a result, batch_req_<number>", param="after")
    return number


_ONE = Described(answer=BatchObject, errors=(404,))

ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/v1/batches",
        create_batch,
        "Create a batch",
        Described(request=CreateBatch, answer=BatchObject, errors=(400, 403, 413, 429)),
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
    Closed("POST", "/v1/batches/{id}/cancel", cancel_batch, "Cancel a batch", _ONE, batch=True),
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
        Timeout.STREAM,
        batch=True,
    ),
)
