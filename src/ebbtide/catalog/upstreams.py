"""Models that upstream servers list themselves: `GET {url}/models`, asked at start and each minute.

A server that is not up yet does not hold the start: its models are taken up when it comes, and one that stops
answering keeps the models it had. Their price is 0. This room speaks no HTTP: the fetch is handed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
import structlog

from ebbtide.catalog.catalog import EMPTY, Catalog
from ebbtide.catalog.model import DeploymentType, Model, ModelType, Route, is_auto_name
from ebbtide.catalog.models_file import base_url_fault
from ebbtide.catalog.source import CatalogSource, FileSource, FixedSource
from ebbtide.config import Config, upstream_key
from ebbtide.duties import Duty
from ebbtide.errors import SetupError, UpstreamFailed

log = structlog.get_logger(__name__)

Fetch = Callable[[str, str | None], Awaitable[bytes]]
"""GET this URL with this API key, None for none, and return the body of a 200. Raises UpstreamFailed."""

_RETRY_SECONDS = 2.0
_REFRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """One server named on the command line, and what its models serve."""

    url: str
    type: ModelType = "chat"


class _Listed(msgspec.Struct):
    id: str
    max_model_len: object = None


class _List(msgspec.Struct):
    data: list[_Listed]


class UpstreamSource:
    """The catalog of what the servers list. The same id at several servers is one model with several routes."""

    def __init__(
        self, upstreams: Sequence[Upstream], fetch: Fetch, *, key: str | None = None, self_hosted: bool = False
    ) -> None:
        for upstream in upstreams:
            fault = base_url_fault(upstream.url)
            if fault is not None:
                raise SetupError(f"An upstream's URL {fault}")
        self._upstreams = tuple(Upstream(upstream.url.rstrip("/"), upstream.type) for upstream in upstreams)
        self._fetch = fetch
        self._key = key
        self._deployment: DeploymentType = "self_hosted" if self_hosted else "auto"
        self._listed: list[tuple[_Listed, ...] | None] = [None] * len(self._upstreams)
        self._trouble: list[str | None] = [None] * len(self._upstreams)
        self.current = EMPTY

    @property
    def notices(self) -> tuple[str, ...]:
        """What an operator should know: the price, which servers batches may not use, which are waited for."""
        said = [f"Models of {upstream.url} are priced at 0; a models file sets prices." for upstream in self._upstreams]
        for index, upstream in enumerate(self._upstreams):
            if not self._route(index, "any").batch_allowed:
                said.append(
                    f"{upstream.url} is not on this machine, so batches may not use it; "
                    "start with --self-hosted if the server is yours."
                )
            if self._listed[index] is None:
                said.append(
                    f"{upstream.url} has not listed its models yet ({self._trouble[index] or 'not asked'}); "
                    f"it is asked every {_RETRY_SECONDS:g} seconds and served as soon as it answers."
                )
        return tuple(said)

    async def start(self) -> None:
        """Ask every server once, all at the same time; one that does not answer is asked again by its duty."""
        await asyncio.gather(*(self.refresh(index) for index in range(len(self._upstreams))))

    def duties(self) -> Sequence[Duty]:
        return [self._duty(index, upstream) for index, upstream in enumerate(self._upstreams)]

    def _duty(self, index: int, upstream: Upstream) -> Duty:
        async def ask(now: datetime) -> int:
            replaced = await self.refresh(index)
            duty.interval = _RETRY_SECONDS if self._listed[index] is None else _REFRESH_SECONDS
            return int(replaced)

        duty = Duty(f"models of {upstream.url}", ask, _RETRY_SECONDS, steady=True)
        return duty

    async def refresh(self, index: int) -> bool:
        """Ask one server. True when `current` was replaced."""
        upstream = self._upstreams[index]
        try:
            listed = tuple(msgspec.json.decode(await self._fetch(f"{upstream.url}/models", self._key), type=_List).data)
        except UpstreamFailed as error:
            return self._unread(index, error.message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._unread(index, "The answer is not a list of models")
        self._trouble[index] = None
        if listed == self._listed[index]:
            return False
        self._listed[index] = listed
        self.current = Catalog.of(self._models(), is_settled=None not in self._listed)
        log.info("upstream_models_read", upstream=upstream.url, models=[entry.id for entry in listed])
        return True

    def _unread(self, index: int, reason: str) -> bool:
        """Say what is wrong once, not at every try."""
        if self._trouble[index] != reason:
            self._trouble[index] = reason
            log.warning("upstream_models_unread", upstream=self._upstreams[index].url, reason=reason)
        return False

    def _models(self) -> Iterator[Model]:
        found: dict[str, tuple[ModelType, int | None, list[Route]]] = {}
        for index, upstream in enumerate(self._upstreams):
            for entry in {entry.id: entry for entry in self._listed[index] or ()}.values():
                if not _usable(entry.id):
                    log.warning("upstream_model_skipped", upstream=upstream.url, model=entry.id[:200])
                    continue
                kind, _, routes = found.setdefault(entry.id, (upstream.type, _context(entry), []))
                if kind != upstream.type:
                    log.warning("upstream_model_skipped", upstream=upstream.url, model=entry.id, kept_type=kind)
                    continue
                routes.append(self._route(index, entry.id))
        for name, (kind, context, routes) in found.items():
            yield Model(id=name, type=kind, routes=tuple(routes), context_length=context)

    def _route(self, index: int, model: str) -> Route:
        upstream = self._upstreams[index]
        return Route(
            id=f"upstream-{index + 1}",
            kind="openai",
            model=model,
            base_url=upstream.url,
            api_keys=() if self._key is None else (self._key,),
            deployment_type=self._deployment,
        )


def _usable(name: str) -> bool:
    return 0 < len(name) <= 200 and name.isprintable() and " " not in name and not is_auto_name(name)


def _context(entry: _Listed) -> int | None:
    length = entry.max_model_len
    return length if isinstance(length, int) and 0 < length <= 1_000_000_000 else None


def configured_models(config: Config, environ: Mapping[str, str], fetch: Fetch) -> CatalogSource:
    """Where a process has its models from: a models file, servers, or nowhere. Raises SetupError."""
    upstreams = [
        *(Upstream(url, "chat") for url in config.upstreams),
        *(Upstream(url, "embedding") for url in config.embedding_upstreams),
    ]
    if config.models is not None:
        return FileSource(config.models, environ)
    if upstreams:
        key = upstream_key(config, environ)
        return UpstreamSource(upstreams, fetch, key=key, self_hosted=config.self_hosted)
    return FixedSource()
