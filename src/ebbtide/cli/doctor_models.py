"""The doctor's look at the models: the file's contents, whether its servers answer, and what batches may use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ebbtide.catalog.model import Model, Route
from ebbtide.catalog.source import FileSource
from ebbtide.cli.findings import Finding, bad, ok, warn
from ebbtide.config import Config, upstream_key
from ebbtide.dispatch.kinds import headers_of, models_url
from ebbtide.dispatch.receive import Broken
from ebbtide.dispatch.send import Sender
from ebbtide.errors import SetupError

_SHOWN: Final = 5


@dataclass(frozen=True)
class _Server:
    url: str
    models_url: str
    headers: Mapping[str, str]
    local: bool


class _Listed(msgspec.Struct):
    """Named `id`, or `name` as Gemini has it."""

    id: str = ""
    name: str = ""


class _List(msgspec.Struct):
    data: list[_Listed] | None = None
    models: list[_Listed] | None = None


async def check_models(config: Config, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """The models file, or the upstreams given; neither is worth a warning."""
    if config.models is not None:
        source = FileSource(config.models, environ)
        try:
            await source.start()
        except SetupError as error:
            yield bad("models file", error.message, "Correct the file.")
            return
        for finding in _check_file(config, source.current.models):
            yield finding
        servers = list(_servers(source.current.models))
    else:
        urls = dict.fromkeys((*config.upstreams, *config.embedding_upstreams))
        try:
            key = upstream_key(config, environ)
        except SetupError as error:
            yield bad("upstream key", error.message, "Export it, and pass the variable's name alone.")
            return
        servers = [_given(url, key, config.self_hosted) for url in urls]
        if not servers:
            yield warn("models", "there are none", "Name a models file (--models) or a server (--upstream).")
    for finding in await _ask_all(servers, locality=config.models is None):
        yield finding


def _check_file(config: Config, models: Sequence[Model]) -> Iterator[Finding]:
    yield ok("models file", f"{config.models} names {len(models)} model{'' if len(models) == 1 else 's'}")
    for model in models:
        if not model.has_batch_route:
            yield warn(
                f"model {model.id}",
                "no route of it may serve batches: none is on this machine or said to be self-hosted",
                "Set deployment_type: self_hosted on the routes that are your own servers.",
            )


def _servers(models: Sequence[Model]) -> Iterator[_Server]:
    """Each server and key once."""
    routes = {
        (route.base_url, key): (route, key)
        for model in models
        for route in model.routes
        if route.base_url
        for key in (route.api_keys or (None,))
    }
    for route, key in routes.values():
        yield _server(route, key)


def _server(route: Route, key: str | None) -> _Server:
    return _Server(route.base_url, models_url(route), headers_of(route, key), route.is_local)


def _given(url: str, key: str | None, self_hosted: bool) -> _Server:
    route = Route("upstream", "openai", "any", url, deployment_type="self_hosted" if self_hosted else "auto")
    return _server(route, key)


async def _ask_all(servers: Sequence[_Server], *, locality: bool) -> list[Finding]:
    """Whether each server answers; with `locality` also whether batches may use it."""
    async with Sender() as sender:
        findings = list(await asyncio.gather(*(_ask(sender, server) for server in servers)))
    if locality:
        findings += [
            warn(
                f"upstream {server.url}",
                "is not on this machine, so batches may not use it",
                "Add --self-hosted if the server is yours.",
            )
            for server in servers
            if not server.local
        ]
    return findings


async def _ask(sender: Sender, server: _Server) -> Finding:
    subject = f"upstream {server.url}"
    reply = await sender.get(server.models_url, server.headers)
    if isinstance(reply, Broken):
        return bad(subject, f"no answer ({reply.told})", "Start the server, or correct the URL.")
    if reply.status != 200:
        return _refused(subject, reply.status)
    try:
        names = _names(msgspec.json.decode(reply.body, type=_List))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError):
        return bad(subject, "/models does not answer with a list of models", "Does the URL lack its /v1?")
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ok(subject, f"lists {', '.join(names[:_SHOWN]) or 'no models'}{more}")


def _names(listed: _List) -> list[str]:
    """Raises LookupError for what is no list of models."""
    found = listed.models if listed.data is None else listed.data
    if found is None:
        raise LookupError
    return [model.id or model.name.removeprefix("models/") for model in found]


def _refused(subject: str, status: int) -> Finding:
    if status in (401, 403):
        advice = "Give its route the right api_key in the models file, or --upstream-key-env the right variable."
        return bad(subject, f"refuses the key ({status})", advice)
    advice = "Does the URL lack its /v1?" if status == 404 else "Look at the server's own log."
    return bad(subject, f"/models answers {status}", advice)
