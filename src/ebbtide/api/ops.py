"""For operators and tools: whether the process lives, whether it is ready, the API's description, and metrics.

Open to all, but for the metrics, which name models and need an administrator's key.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide import __version__
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Admin, Described, Endpoint, Open
from ebbtide.duties import Check
from ebbtide.errors import EbbtideError
from ebbtide.records.metrics import MEDIA_TYPE, render_metrics

_CHECK_SECONDS = 5


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(msgspec.Struct, frozen=True):
    """Whether requests can be served; `checks` tells for each part `ok` or what is wrong with it."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]


async def health(gateway: Gateway, request: Request) -> Response:
    return answer_json(Health())


async def ready(gateway: Gateway, request: Request) -> Response:
    found = await asyncio.gather(*(_check(check) for check in gateway.checks.values()))
    checks = dict(zip(gateway.checks, found, strict=True))
    well = all(words == "ok" for words in found)
    return answer_json(Readiness("ready" if well else "not_ready", checks), 200 if well else 503)


async def describe(gateway: Gateway, request: Request) -> Response:
    return Response(gateway.openapi, media_type="application/json")


async def metrics(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return Response(render_metrics(), headers={"content-type": MEDIA_TYPE})


async def _check(check: Check) -> str:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await check() or "ok"
    except TimeoutError:
        return f"no answer within {_CHECK_SECONDS} seconds"
    except EbbtideError as error:
        return error.message


ROUTES: tuple[Endpoint, ...] = (
    Open("GET", "/health", health, "Whether the process lives", Described(answer=Health)),
    Open("GET", "/health/ready", ready, "Whether it can serve", Described(answer=Readiness, more=((503, Readiness),))),
    Admin("GET", "/metrics", metrics, "What this process counts, for Prometheus", Described(answer="text/plain")),
    Open("GET", "/openapi.json", describe, "This description", Described(answer="application/json")),
)
