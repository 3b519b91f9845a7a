"""/admin/batch/jobs, /admin/batch/summary and /admin/workers: everyone's batches, their sums, and who works on them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.directory import Owner, account_owners
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json, list_page
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.render import InputMethod, batch_object, input_method
from ebbtide.api.parameters import ChoiceParameter, IntegerParameter, TextParameter
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.batches import cancel
from ebbtide.batches.browse import NamedJob, batch_name
from ebbtide.batches.model import TARGETS
from ebbtide.batches.overview import JobQuery, Sums, list_jobs, list_workers, summarise
from ebbtide.batches.states import FINAL_STATUSES
from ebbtide.dialects.openai.batch import BatchObject, ListPage
from ebbtide.records.audit import Deed, add_audit

_STATUSES = ("validating", "in_progress", "finalizing", "cancelling", *sorted(FINAL_STATUSES))
AFTER = TextParameter("after", "The last_id of the page before")
LIMIT = IntegerParameter("limit", 100, 1, 1_000, "Batches in a page")
ACCOUNT = TextParameter("account_id", "Only this account's")
STATUS = ChoiceParameter("status", "any", ("any", *_STATUSES), "Only batches of this status")
TARGET = ChoiceParameter("target", "any", ("any", *TARGETS), "Only batches for this target")
MODEL = TextParameter("model", "Only batches whose requests all name this model")
SEARCH = TextParameter("search", "A part of the name or of the id")
USERS = IntegerParameter("users", 100, 1, 1_000, "Accounts in the answer, those whose batches cost most")
AFTER_WORKER = IntegerParameter("after", 0, 0, 10**15, "The number of the last worker of the page before")
_FILTERS = (AFTER, LIMIT, ACCOUNT, STATUS, TARGET, MODEL, SEARCH)


class BatchJob(msgspec.Struct, frozen=True):
    """A batch, how it came, and its owner. `name` was given in the console, or is the one in its metadata.
    `misses_window`: at its pace so far it ends after its window has closed.
    """

    account_id: str
    user_name: str
    email: str | None
    started_at: datetime | None
    estimated_completion_at: datetime | None
    misses_window: bool
    cached_tokens: int
    name: str | None
    target: str
    input_method: InputMethod
    batch: BatchObject
    object: Literal["batch_job"] = "batch_job"


class BatchSums(msgspec.Struct, frozen=True):
    """Sums over stored batches. `failed` includes the `expired` requests; `cost_usd` leaves out attempts of unknown
    cost, `cached_tokens` the batches counted in `cache_unrecorded_batches`.
    """

    batches: int
    total: int
    succeeded: int
    failed: int
    expired: int
    cancelled: int
    not_finished: int
    cost_usd: float
    cost_unknown_attempts: int
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    cache_unrecorded_batches: int


class UserSums(msgspec.Struct, frozen=True):
    """The sums of one account."""

    account_id: str
    user_name: str
    email: str | None
    totals: BatchSums


class BatchSummary(msgspec.Struct, frozen=True):
    totals: BatchSums
    users: list[UserSums]
    object: Literal["batch_summary"] = "batch_summary"


class WorkerObject(msgspec.Struct, frozen=True):
    """A worker that has not ended: what it can run, how many requests it may have in flight (`slots`), and how many it
    holds (`running`), the few that it keeps ready included.
    """

    no: int
    host: str
    pid: int
    version: str
    schema_version: int
    surfaces: list[str]
    targets: list[str]
    started_at: datetime
    lease_until: datetime
    alive: bool
    slots: int
    running: int
    object: Literal["worker"] = "worker"


async def list_batch_jobs(gateway: Gateway, request: Request, principal: Principal) -> Response:
    status, target = STATUS.read(request), TARGET.read(request)
    query = JobQuery(
        AFTER.read(request),
        ACCOUNT.read(request),
        None if status == "any" else status,
        None if target == "any" else target,
        MODEL.read(request),
        SEARCH.read(request),
        LIMIT.read(request),
    )
    page = await list_jobs(gateway.database, query, gateway.moment())
    owners = await account_owners(gateway.database, [named.job.account_id for named in page.items])
    data = [_job(named, owners) for named in page.items]
    return answer_json(list_page(data, [one.batch.id for one in data], page.has_more))


async def cancel_batch_job(gateway: Gateway, request: Request, principal: Principal) -> Response:
    now = gateway.clock.now()
    job = await cancel.cancel_batch(gateway.database, principal, request.path_params["id"], now)
    async with gateway.database.transaction() as conn:
        await add_audit(conn, Deed(principal.actor, "batch.cancel", job.id, account_id=job.account_id), now)
    named = NamedJob(job, await batch_name(gateway.database, job))
    return answer_json(_job(named, await account_owners(gateway.database, [job.account_id])))


async def get_batch_summary(gateway: Gateway, request: Request, principal: Principal) -> Response:
    totals, users = await summarise(gateway.database, USERS.read(request))
    account_ids = [cast(str, sums.account_id) for sums in users]
    owners = await account_owners(gateway.database, account_ids)
    told = [
        UserSums(account_id, owners[account_id].name, owners[account_id].email, _sums(sums))
        for account_id, sums in zip(account_ids, users, strict=True)
    ]
    return answer_json(BatchSummary(_sums(totals), told))


async def list_worker_rows(gateway: Gateway, request: Request, principal: Principal) -> Response:
    page = await list_workers(gateway.database, AFTER_WORKER.read(request), LIMIT.read(request))
    data = [WorkerObject(**asdict(worker)) for worker in page.items]
    return answer_json(list_page(data, [str(worker.no) for worker in data], page.has_more))


def _job(named: NamedJob, owners: dict[str, Owner]) -> BatchJob:
    job = named.job
    return BatchJob(
        account_id=job.account_id,
        user_name=owners[job.account_id].name,
        email=owners[job.account_id].email,
        started_at=job.in_progress_at,
        estimated_completion_at=job.estimated_completion_at,
        misses_window=job.finishes_in_time is False,
        cached_tokens=job.cached_tokens,
        name=named.name,
        target=job.target,
        input_method=input_method(job),
        batch=batch_object(job),
    )


def _sums(sums: Sums) -> BatchSums:
    values: dict[str, Any] = asdict(sums)
    del values["account_id"]
    return BatchSums(**{**values, "cost_usd": float(sums.cost_usd)})


ROUTES: tuple[Endpoint, ...] = (
    Admin(
        "GET",
        "/admin/batch/jobs",
        list_batch_jobs,
        "List everyone's batches, newest first",
        Described(answer=ListPage[BatchJob], parameters=_FILTERS, errors=(400,)),
    ),
    Admin(
        "POST",
        "/admin/batch/jobs/{id}/cancel",
        cancel_batch_job,
        "Cancel anyone's batch",
        Described(answer=BatchJob, errors=(404,)),
    ),
    Admin(
        "GET",
        "/admin/batch/summary",
        get_batch_summary,
        "Sums over everyone's batches, and per account",
        Described(answer=BatchSummary, parameters=(USERS,), errors=(400,)),
    ),
    Admin(
        "GET",
        "/admin/workers",
        list_worker_rows,
        "List the workers that have not ended",
        Described(answer=ListPage[WorkerObject], parameters=(AFTER_WORKER, LIMIT), errors=(400,)),
    ),
)
