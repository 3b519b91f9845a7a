"""A process that is up, and what it tells the operator who started it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ebbtide import __version__
from ebbtide.announcements import ready
from ebbtide.catalog.source import CatalogSource
from ebbtide.config import Config, place


@dataclass(frozen=True)
class Running:
    """A process that is up: where it answers (None for a worker), and what to tell the operator.

    `admin_key` is the first administrator's API key and `setup_code` the code of first-run set-up, each to the one
    process that made it. `ended` is set when anything that should go on has ended by itself: the HTTP server, the
    worker, a duty.
    """

    url: str | None
    catalog: CatalogSource
    admin_key: str | None
    setup_code: str | None
    ended: asyncio.Event


def greeting(running: Running, config: Config) -> str:
    """What the operator reads at start; a first administrator's key is in it, and nowhere else ever again.

    Of several processes one tells what there is, each the secrets that it made, and their parent when all are ready.
    """
    lines = _secrets(running) if config.quiet else [*_overview(running, config), *_secrets(running)]
    if config.processes == 1:
        lines.append(ready())
    return "".join(f"{line}\n" for line in lines)


def _overview(running: Running, config: Config) -> list[str]:
    catalog = running.catalog.current
    lines = [f"Ebbtide {__version__}" + (f" answers at {running.url}" if running.url else " works on batches")]
    if running.url:
        lines.append(f"  console: {running.url}/console")
    lines.append(f"  data: {place(config)}")
    for model in catalog.models:
        batch = sum(route.batch_allowed for route in model.routes)
        lines.append(f"  model: {model.id} ({model.type}), routes: {len(model.routes)}, of them for batches: {batch}")
    return lines + [f"  note: {notice}" for notice in (*running.catalog.notices, *_warnings(running.catalog))]


def _secrets(running: Running) -> list[str]:
    lines = []
    if running.admin_key is not None:
        lines.append(f"  first administrator's API key, shown only now: {running.admin_key}")
    if running.setup_code is not None:
        lines.append(f"  set-up code for the first sign-in, good once: {running.setup_code}")
    return lines


def _warnings(source: CatalogSource) -> list[str]:
    catalog = source.current
    if not catalog.models:
        if source.notices:  # servers that are waited for, told there
            return []
        return ["There are no models yet: name a models file (--models) or a server (--upstream)."]
    return [
        f"Batches may not use {model.id}: none of its routes is local or declared as self_hosted."
        for model in catalog.models
        if not model.has_batch_route
    ]
