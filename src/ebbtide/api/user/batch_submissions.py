"""POST /user/batches: a file that was checked becomes a batch, under the key and for the model that the check told.

A call that was answered before is answered again, whatever has changed since; a first one is refused once either has.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.batches import IDEMPOTENCY_KEY, intake_of, key_of_create, replayed_create
from ebbtide.api.openai.render import batch_object
from ebbtide.api.parts import parse_body
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches.idempotency import Once
from ebbtide.batches.intake import create_batch
from ebbtide.catalog.catalog import Catalog
from ebbtide.dialects.openai.batch import BatchObject, encode
from ebbtide.dialects.openai.canonical import create_digest
from ebbtide.dialects.openai.requests import WINDOW, parse_create
from ebbtide.errors import Conflict

CHECK_AGAIN = "check_again"


class CheckFound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the check told: the key it was made with, and the canonical model that `names` stood for, which are the
    names in the file or the one that was chosen.
    """

    key_id: str
    model: str
    names: list[str]


class BatchSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch of a file, as in `POST /v1/batches`, and what its check found."""

    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/embeddings"]
    checked: CheckFound
    metadata: dict[str, str] = {}


async def submit_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    key = key_of_create(request)
    given = parse_body(await read_body(request, MIB), BatchSubmission)
    create = encode(
        {
            "input_file_id": given.input_file_id,
            "endpoint": given.endpoint,
            "completion_window": WINDOW,
            "metadata": given.metadata,
        }
    )
    once = None if key is None else Once(key, create_digest(create))
    replayed = await replayed_create(gateway, principal, once)
    if replayed is not None:
        return replayed
    intake = intake_of(gateway)
    _refuse_changed(given.checked, principal, intake.catalog)
    parsed = parse_create(create, intake.settings.batch_max_requests)
    return answer_json(batch_object(await create_batch(intake, principal, parsed, once)))


def _refuse_changed(checked: CheckFound, principal: Principal, catalog: Catalog) -> None:
    if checked.key_id != principal.key_id:
        raise Conflict("Your API key has changed since the check: check again", code=CHECK_AGAIN)
    models = [catalog.usable(name, principal.role) for name in checked.names]
    if any(model is None or model.id != checked.model for model in models):
        raise Conflict("The model has changed since the check: check again", code=CHECK_AGAIN)


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/user/batches",
        submit_batch,
        "Create a batch of a checked file, unless the key or the model has changed since",
        Described(
            request=BatchSubmission,
            answer=BatchObject,
            parameters=(IDEMPOTENCY_KEY,),
            errors=(400, 403, 409, 410, 413, 429),
        ),
        batch=True,
    ),
)
