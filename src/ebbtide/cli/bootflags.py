"""Flags made from the table of boot settings: names, sentences and defaults are written there and nowhere else."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Parameter

from ebbtide.config import OPTIONS, Config, load_config


def _flag(field: str) -> Parameter:
    option = next(option for option in OPTIONS if option.field == field)
    default = "" if option.default is None else f", default {option.default}"
    text = f"{option.sentence} ({option.variable}{default})"
    return Parameter(name=option.flag, help=text, negative=(), show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DatabaseFlags:
    """Where the database is."""

    database_url: Annotated[str | None, _flag("database_url")] = None
    database_listen_url: Annotated[str | None, _flag("database_listen_url")] = None
    data_dir: Annotated[str | None, _flag("data_dir")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkerFlags(DatabaseFlags):
    """What every process of a deployment is started with."""

    processes: Annotated[str | None, _flag("processes")] = None
    models: Annotated[str | None, _flag("models")] = None
    upstreams: Annotated[list[str] | None, _flag("upstreams")] = None
    embedding_upstreams: Annotated[list[str] | None, _flag("embedding_upstreams")] = None
    upstream_key_env: Annotated[str | None, _flag("upstream_key_env")] = None
    self_hosted: Annotated[bool | None, _flag("self_hosted")] = None
    worker_lease_seconds: Annotated[str | None, _flag("worker_lease_seconds")] = None
    worker_heartbeat_seconds: Annotated[str | None, _flag("worker_heartbeat_seconds")] = None
    webhook_ca_file: Annotated[str | None, _flag("webhook_ca_file")] = None
    log_level: Annotated[str | None, _flag("log_level")] = None
    log_format: Annotated[str | None, _flag("log_format")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServeFlags(WorkerFlags):
    """The same, and where HTTP is served."""

    host: Annotated[str | None, _flag("host")] = None
    port: Annotated[str | None, _flag("port")] = None
    role: Annotated[str | None, _flag("role")] = None
    trusted_proxies: Annotated[str | None, _flag("trusted_proxies")] = None
    secure_cookies: Annotated[bool | None, _flag("secure_cookies")] = None


def read_config(flags: DatabaseFlags, **fixed: object) -> Config:
    """The boot settings of this command; `fixed` ones cannot be overridden. Raises SetupError."""
    return load_config(os.environ, {**asdict(flags), **fixed})
