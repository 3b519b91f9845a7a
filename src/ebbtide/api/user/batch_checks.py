"""/user/batch-checks: whether a file's lines would make a batch, before anything is uploaded, stored or billed."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.openai.batches import intake_of
from ebbtide.api.openai.files import JSONL
from ebbtide.api.parameters import ChoiceParameter
from ebbtide.api.routing import Closed, Described, Endpoint
from ebbtide.batches.model import LineProblem
from ebbtide.batches.preflight import check_lines
from ebbtide.weight import in_turn

URLS = ("/v1/chat/completions", "/v1/embeddings")
ENDPOINT = ChoiceParameter("endpoint", URLS[0], URLS, "The endpoint that every line is for")


class BatchCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `model` is the canonical name of the one model, null where there are problems; of these the
    first 1,000 are listed, as in a batch's `errors`. `sha256` is that of the bytes that were checked.
    """

    object: Literal["batch_check"] = "batch_check"
    requests: int
    model: str | None
    key_id: str
    sha256: str
    problem_count: int
    problems: list[LineProblem]


async def check_batch(gateway: Gateway, request: Request, principal: Principal) -> Response:
    endpoint = ENDPOINT.read(request)
    raw = await read_body(request, gateway.settings.current.batch_max_body_mb * MIB)
    async with in_turn(len(raw)):
        found = await check_lines(intake_of(gateway), principal, raw, endpoint)
    return answer_json(
        BatchCheck(
            requests=found.requests,
            model=found.model,
            key_id=principal.key_id,
            sha256=found.digest.hex(),
            problem_count=found.problem_count,
            problems=list(found.problems),
        )
    )


ROUTES: tuple[Endpoint, ...] = (
    Closed(
        "POST",
        "/user/batch-checks",
        check_batch,
        "Check a file's lines without storing, running or billing anything",
        Described(request=JSONL, answer=BatchCheck, parameters=(ENDPOINT,), errors=(400, 403, 413)),
        batch=True,
    ),
)
