"""For operators and tools: whether the process lives, whether it is ready, the API's description, and metrics.

Open to all, but for the metrics, which name models: they need an administrator's key or the metrics token. Readiness
and metrics speak for every process behind the port.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide import __version__
from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.figures import deployment_samples, process_samples
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Described, Endpoint, Open, Scraped
from ebbtide.records.exposition import render_metrics
from ebbtide.records.metrics import MEDIA_TYPE


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str = __version__


class Readiness(msgspec.Struct, frozen=True):
    """Whether requests can be served; `checks` tells for each part `ok` or what is wrong with it.

    They are those of the process that answers; `processes` tells the same of each one behind the port, by its number.
    """

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]
    processes: dict[str, str]


async def health(gateway: Gateway, request: Request) -> Response:
    return answer_json(Health())


async def ready(gateway: Gateway, request: Request) -> Response:
    pulse = gateway.pulse
    checks = await pulse.look()
    now = time.monotonic()
    processes = {str(place): beat.trouble(now) or "ok" for place, beat in pulse.family().items()}
    well = all(words == "ok" for words in (*checks.values(), *processes.values()))
    return answer_json(Readiness("ready" if well else "not_ready", checks, processes), 200 if well else 503)


async def describe(gateway: Gateway, request: Request) -> Response:
    return Response(gateway.openapi, media_type="application/json")


async def metrics(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await scrape_metrics(gateway, request)


async def scrape_metrics(gateway: Gateway, request: Request) -> Response:
    folder = gateway.pulse.folder
    samples = [
        *process_samples(gateway.pulse.family(), time.monotonic()),
        *deployment_samples(await gateway.backlog.current()),
    ]
    # In a thread, since the files of many processes take their time.
    text = await asyncio.to_thread(render_metrics, samples, None if folder is None else folder.path)
    return Response(text, headers={"content-type": MEDIA_TYPE})


ROUTES: tuple[Endpoint, ...] = (
    Open("GET", "/health", health, "Whether the process lives", Described(answer=Health)),
    Open("GET", "/health/ready", ready, "Whether it can serve", Described(answer=Readiness, more=((503, Readiness),))),
    Scraped(
        "GET",
        "/metrics",
        metrics,
        "What is counted and what stands, for Prometheus",
        Described(answer="text/plain"),
        scrape=scrape_metrics,
    ),
    Open("GET", "/openapi.json", describe, "This description", Described(answer="application/json")),
)
