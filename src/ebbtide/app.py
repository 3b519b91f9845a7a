"""The only place that builds and connects things: a process from its boot settings to its last goodbye.

Built bottom up, taken down in reverse: no new requests, those in flight get a grace period as running batch items do,
then the duties, the upstream connections, the database. A second signal ends all of it at once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import uvloop

from ebbtide import __version__
from ebbtide.accounts.accounts import ensure_admin
from ebbtide.accounts.authenticator import Authenticator
from ebbtide.accounts.oidc.config import OidcConfig, load_oidc
from ebbtide.accounts.oidc.flow import Oidc
from ebbtide.accounts.passwords import Passwords
from ebbtide.accounts.sessions import Sessions
from ebbtide.accounts.setup import ensure_code
from ebbtide.announcements import GRACE_SECONDS, STOPPED, STOPPING
from ebbtide.api.gateway import Gateway
from ebbtide.api.openapi import build_document
from ebbtide.api.server import ENDPOINTS, HttpServer, build_api
from ebbtide.batches.backlog import BacklogSource
from ebbtide.batches.progress import Moment
from ebbtide.batches.watch import Watch
from ebbtide.catalog.policies import PolicySource
from ebbtide.catalog.upstreams import configured_models
from ebbtide.clock import Clock, SystemClock
from ebbtide.config import Config
from ebbtide.delivery.post import Poster
from ebbtide.dispatch.dispatcher import Dispatcher
from ebbtide.dispatch.health import HealthReporter
from ebbtide.dispatch.load import LoadReporter, process_name
from ebbtide.dispatch.observed import ObservedDispatcher, ObservedSender
from ebbtide.dispatch.rules import rules_in_force
from ebbtide.duties import Duties
from ebbtide.ending import Stop, close_doors, wait_first
from ebbtide.files.upload import FailedUploads
from ebbtide.greeting import Running, greeting
from ebbtide.listening import adopt, listen
from ebbtide.logs import set_up_logging
from ebbtide.proxy.admission import Admission
from ebbtide.proxy.interactive import Interactive
from ebbtide.proxy.purse import Purse
from ebbtide.proxy.slots import Slots
from ebbtide.pulse import Pulse
from ebbtide.records import metrics
from ebbtide.records.capture import Captures
from ebbtide.records.footprint import footprint
from ebbtide.records.log_days import add_days, keeping_log
from ebbtide.records.request_log import RequestLog
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.siblings import Folder, Sample
from ebbtide.storage.migrate import migrate
from ebbtide.storage.notify import Listener
from ebbtide.storage.pool import Database
from ebbtide.storage.reach import reach_database
from ebbtide.tracing import Tracer, close_tracing, set_up_tracing
from ebbtide.worker.context import WorkerContext
from ebbtide.worker.lease import Lease
from ebbtide.worker.life import LifeLocks, locks_folder
from ebbtide.worker.loop import Worker

_GC_THRESHOLD: Final = 100_000


def run(config: Config, environ: Mapping[str, str] = os.environ) -> int:
    """Run one gateway process until a signal ends it; returns its exit status. Raises SetupError, Unavailable."""
    pretty = None if config.log_format == "auto" else config.log_format == "console"
    set_up_logging(config.log_level, pretty=pretty)
    set_up_tracing(environ, _opentelemetry)
    try:
        return uvloop.run(_run(config, environ))
    finally:
        close_tracing()


def _opentelemetry() -> Tracer:
    from ebbtide.otel import build_tracer  # an extra, loaded only where it is asked for

    return build_tracer()


def tune_collector() -> None:
    """Keep the garbage collector away from what lives as long as the process, and seldom busy with what does not."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 10, 10)


async def _run(config: Config, environ: Mapping[str, str]) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    async with start(config, environ, stop) as running:
        sys.stdout.write(greeting(running, config))
        sys.stdout.flush()
        tune_collector()
        await wait_first(stop.asked, running.ended)
        failed = running.ended.is_set() and not stop.asked.is_set()
        _say(STOPPING, config)
    _say(STOPPED, config)
    return 1 if failed else 0


@asynccontextmanager
async def start(config: Config, environ: Mapping[str, str], stop: Stop) -> AsyncIterator[Running]:
    """A whole gateway process in this event loop: up when entered, gone when left. Raises SetupError, Unavailable."""
    clock = SystemClock()
    settings, oidc = SettingsSource.from_environ(environ), load_oidc(environ)
    async with AsyncExitStack() as stack:
        reached = reach_database(config.database_url, config.data_dir, listen_url=config.database_listen_url)
        database = await stack.enter_async_context(reached)
        await migrate(database)
        await settings.refresh(database)
        await add_days(database, clock.now())  # before anything is logged, so that the first rows have their day
        listener = await stack.enter_async_context(Listener(database))
        sender = await stack.enter_async_context(ObservedSender())
        catalog = PolicySource(configured_models(config, environ, sender.fetch))
        await catalog.start()
        await catalog.refresh(database)
        duties = Duties(clock, random.Random())
        stack.push_async_callback(duties.stop)
        pulse = _pulse(config, database)
        dispatcher = ObservedDispatcher(sender, rules=lambda: rules_in_force(settings.current, catalog.off))
        pulse.gauges.append(lambda: dispatcher.gauges(catalog.current.models))
        parts = _Parts(config, database, settings, catalog, dispatcher, clock, process_name(), listener, pulse, oidc)
        _repeat_upkeep(parts, duties)
        running = await _open_doors(parts, duties, stop, stack)
        _begin_pulse(parts, duties, stop)
        yield running


@dataclass(frozen=True)
class _Parts:
    config: Config
    database: Database
    settings: SettingsSource
    catalog: PolicySource
    dispatcher: Dispatcher
    clock: Clock
    process: str
    listener: Listener
    pulse: Pulse
    oidc: OidcConfig | None

    def moment(self) -> Moment:
        """What decides, now, why a batch waits."""
        return Moment(self.clock.now(), self.settings.current.batch_min_role)


def _repeat_upkeep(parts: _Parts, duties: Duties) -> None:
    """What every process keeps true, whatever its role: models, settings, days of the request log, news of routes."""
    database, settings, catalog = parts.database, parts.settings, parts.catalog
    for duty in (
        *catalog.duties(),
        catalog.following(database, parts.listener),
        settings.following(database, parts.listener),
        keeping_log(database, lambda: settings.current.request_log_retention_days),
        HealthReporter(database, parts.dispatcher, parts.process).duty(),
    ):
        duties.repeat(duty)


def _pulse(config: Config, database: Database) -> Pulse:
    folder = None if config.family_dir is None else Folder(config.family_dir)
    pulse = Pulse(folder, config.place, metrics.LOOP_LAG.observe)

    def gauges() -> list[Sample]:
        used, idle = database.connections
        return [
            (metrics.POOL, ("used",), used),
            (metrics.POOL, ("idle",), idle),
            (metrics.BUILD_INFO, (__version__, platform.python_version()), 1),
        ]

    pulse.gauges += [gauges, footprint]
    return pulse


def _begin_pulse(parts: _Parts, duties: Duties, stop: Stop) -> None:
    """From here on the process tells how it stands, until its last moment that it is stopping."""
    pulse = parts.pulse

    async def check_models() -> str | None:
        return None if parts.catalog.current.models else "no model is configured, or no upstream has answered yet"

    pulse.loops.append(duties.loops)
    for duty in pulse.duties():
        duties.repeat(duty)
    duties.start("event loop", pulse.watch_lag())
    pulse.checks = {"database": parts.database.check, "models": check_models, **duties.checks}
    pulse.begin()
    stop.then = pulse.stop


async def _open_doors(parts: _Parts, duties: Duties, stop: Stop, stack: AsyncExitStack) -> Running:
    """Start the worker and the HTTP server, as the role wants; on the way out they stop first."""
    config, url, admin_key, setup_code = parts.config, None, None, None
    served: list[asyncio.Task[None]] = []
    server: HttpServer | None = None
    if config.role != "api":
        served.append(_start_worker(parts, duties, stop))
    if config.role != "worker":
        fd = config.socket_fd
        listener = listen(config.host, config.port) if fd is None else adopt(fd)
        url = _url(config.host, listener.getsockname()[1])
        admin_key = await ensure_admin(parts.database, parts.clock.now())
        setup_code = None if parts.oidc else await ensure_code(parts.database, parts.clock.now())
        server = HttpServer(build_api(_gateway(parts, duties, stop)), listener, config.trusted_proxies)
        served.append(duties.watch(await server.start()))
    stack.push_async_callback(close_doors, server, served, stop)
    return Running(url, parts.catalog, admin_key, setup_code, duties.ended)


def _start_worker(parts: _Parts, duties: Duties, stop: Stop) -> asyncio.Task[None]:
    config = parts.config
    poster = Poster(config.webhook_ca_file)
    context = WorkerContext(
        parts.database,
        parts.catalog,
        parts.settings,
        parts.dispatcher,
        parts.clock,
        process=parts.process,
        poster=poster,
    )
    lease = Lease(
        parts.database,
        seconds=config.worker_lease_seconds,
        beat=config.worker_heartbeat_seconds,
        locks=LifeLocks(locks_folder(config)),
    )
    worker = Worker(context, lease, grace_seconds=GRACE_SECONDS)
    parts.pulse.loops.append(worker.loops)
    parts.pulse.gauges.append(worker.gauges)
    return duties.start("worker", worker.run(stop.asked), worker.check)


def _gateway(parts: _Parts, duties: Duties, stop: Stop) -> Gateway:
    authenticator = Authenticator(parts.database, parts.clock)
    sessions = Sessions(parts.database, parts.clock, parts.settings, Passwords())
    interactive = _interactive(parts, duties, stop)
    duties.repeat(authenticator.uses.duty())

    return Gateway(
        database=parts.database,
        authenticator=authenticator,
        secure_cookies=parts.config.secure_cookies,
        sessions=sessions,
        oidc=None if parts.oidc is None else Oidc(parts.oidc, parts.database, sessions),
        catalog=parts.catalog,
        settings=parts.settings,
        dispatcher=parts.dispatcher,
        interactive=interactive,
        clock=parts.clock,
        moment=parts.moment,
        watch=Watch(parts.database, parts.moment, stop.asked),
        failed_uploads=FailedUploads(),
        openapi=build_document(ENDPOINTS),
        pulse=parts.pulse,
        backlog=BacklogSource(parts.database),
        metrics_token=parts.config.metrics_token,
    )


def _interactive(parts: _Parts, duties: Duties, stop: Stop) -> Interactive:
    log = RequestLog(parts.database, parts.process, Captures(lambda: parts.settings.current.db_store_full_content))
    purse = Purse(parts.database, parts.settings, parts.clock, parts.process)
    slots = Slots(parts.database, parts.process)
    load = LoadReporter(parts.database, parts.dispatcher, parts.process)
    for duty in (log.duty(), purse.duty(parts.listener), slots.duty(parts.listener), load.duty()):
        duties.repeat(duty)
    admission = Admission(purse, slots, parts.clock)
    return Interactive(parts.dispatcher, admission, log, parts.clock, stop.asked.is_set)


def _say(line: str, config: Config) -> None:
    """Of several processes, their parent says it for all."""
    if config.processes > 1:
        return
    with suppress(BrokenPipeError):  # whoever read the greeting may have gone
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
