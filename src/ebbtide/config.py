"""Boot settings: read once when a process starts, frozen from then on.

One table (`OPTIONS`) makes the parser, the command line's help, the docs page and a child process's environment.
A flag wins over the environment, the environment over the default. Run-time settings are in ebbtide.settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from ebbtide.errors import SetupError
from ebbtide.parsers import choice, http_urls, networks, number, path, postgres_url, seconds, switch, token, variable
from ebbtide.storage.embedded import default_data_dir

PREFIX: Final = "EBBTIDE_"
ProcessRole: TypeAlias = Literal["api", "worker", "all"]
LogFormat: TypeAlias = Literal["auto", "json", "console"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Option:
    """One boot setting: the field of `Config` it fills, and how it is written, read and explained.

    `default` is the text that stands for it, or None where the sentence tells what happens without it.
    An option without a flag is only set by the environment.
    """

    field: str
    flag: str | None
    default: str | None
    sentence: str
    parse: Callable[[str], object]
    repeats: bool = False
    internal: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.field.upper()


OPTIONS: Final[tuple[Option, ...]] = (
    Option("host", "--host", "127.0.0.1", "The address the HTTP server listens on.", str),
    Option(
        "port",
        "--port",
        "8080",
        "The port the HTTP server listens on; 0 takes any free one.",
        number(0, 65_535),
    ),
    Option(
        "role",
        "--role",
        "all",
        "What a process does: `api` answers HTTP, `worker` runs batches, `all` does both.",
        choice("api", "worker", "all"),
    ),
    Option("processes", "--processes", "1", "How many such processes to run on this machine.", number(1, 256)),
    Option(
        "models",
        "--models",
        None,
        "The models file (YAML), taken up again whenever it changes. Without it: the models of the upstreams given.",
        path,
    ),
    Option(
        "upstreams",
        "--upstream",
        None,
        "A server whose models serve chat, as its base URL; may be repeated, in the environment separated by commas.",
        http_urls,
        repeats=True,
    ),
    Option(
        "embedding_upstreams",
        "--embedding-upstream",
        None,
        "The same for servers whose models serve embeddings.",
        http_urls,
        repeats=True,
    ),
    Option(
        "upstream_key_env",
        "--upstream-key-env",
        None,
        "The environment variable that holds the API key which the upstreams given are sent. Without it: none is.",
        variable,
    ),
    Option(
        "self_hosted",
        "--self-hosted",
        "off",
        "Says that the upstreams given are one's own servers although they are not on this machine, "
        "so that batches may use them.",
        switch,
    ),
    Option(
        "database_url",
        "--database-url",
        None,
        "A PostgreSQL server (15 or newer), as a URL. Without it: a server of its own, kept in the data folder.",
        postgres_url,
    ),
    Option(
        "database_listen_url",
        "--database-listen-url",
        None,
        "A direct URL of the same database for LISTEN, where the main URL leads through a pooler in transaction mode.",
        postgres_url,
    ),
    Option(
        "data_dir",
        "--data-dir",
        None,
        "The folder that holds the embedded server's data. Without it: a folder of the user's own "
        "(for root, `/var/lib/ebbtide`).",
        path,
    ),
    Option(
        "worker_lease_seconds",
        "--worker-lease-seconds",
        "120",
        "How long a worker may be out of touch with the database, in seconds, before others take its requests over.",
        seconds(1, 3_600),
    ),
    Option(
        "worker_heartbeat_seconds",
        "--worker-heartbeat-seconds",
        "15",
        "How often a worker prolongs its lease, in seconds; at most a third of it.",
        seconds(0.1, 1_200),
    ),
    Option(
        "webhook_ca_file",
        "--webhook-ca-file",
        None,
        "A file of certificate authorities (PEM) that webhook endpoints may be vouched for by, beside the system's.",
        path,
    ),
    Option(
        "trusted_proxies",
        "--trusted-proxies",
        None,
        "The addresses or networks of reverse proxies, separated by commas, whose `X-Forwarded-For` and "
        "`X-Forwarded-Proto` are believed. Without it: nobody's.",
        networks,
    ),
    Option(
        "secure_cookies",
        "--secure-cookies",
        "off",
        "Marks the session cookie as Secure although the gateway itself is reached by plain HTTP; "
        "by HTTPS it always is.",
        switch,
    ),
    Option(
        "log_level",
        "--log-level",
        "info",
        "The least grave events that are logged: `debug`, `info`, `warning` or `error`.",
        choice("debug", "info", "warning", "error"),
    ),
    Option(
        "log_format",
        "--log-format",
        "auto",
        "How events are logged, to standard error: `json`, one object a line, `console` for people to read, or `auto`: "
        "`console` on a terminal, else `json`.",
        choice("auto", "json", "console"),
    ),
    Option(
        "metrics_token",
        None,
        None,
        "What a scraper may present at `/metrics` as `Authorization: Bearer`, 16 characters or more. Without it, only "
        "administrators' keys open it.",
        token,
    ),
    Option(
        "socket_fd",
        None,
        None,
        "A listening socket handed over by a parent.",
        number(3, 65_535),
        internal=True,
    ),
    Option("parent_fd", None, None, "Closes when the parent process ends.", number(3, 65_535), internal=True),
    Option("family_dir", None, None, "The folder that the processes behind a port share.", path, internal=True),
    Option("place", None, "0", "The number of this process among them.", number(0, 255), internal=True),
    Option("quiet", None, "off", "Whether another process says what there is to say at start.", switch, internal=True),
)


_DEFAULT: Final[Mapping[str, Any]] = {
    option.field: option.parse(option.default) for option in OPTIONS if option.default is not None
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a process is started with."""

    data_dir: Path
    database_url: str | None = None  # None: the embedded server in `data_dir`
    database_listen_url: str | None = None  # None: listen on the main URL
    host: str = _DEFAULT["host"]
    port: int = _DEFAULT["port"]
    role: ProcessRole = _DEFAULT["role"]
    processes: int = _DEFAULT["processes"]
    models: Path | None = None
    upstreams: tuple[str, ...] = ()
    embedding_upstreams: tuple[str, ...] = ()
    upstream_key_env: str | None = None  # None: no key is sent
    self_hosted: bool = _DEFAULT["self_hosted"]
    worker_lease_seconds: float = _DEFAULT["worker_lease_seconds"]
    worker_heartbeat_seconds: float = _DEFAULT["worker_heartbeat_seconds"]
    webhook_ca_file: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    secure_cookies: bool = _DEFAULT["secure_cookies"]
    log_level: LogLevel = _DEFAULT["log_level"]
    log_format: LogFormat = _DEFAULT["log_format"]
    metrics_token: str | None = field(default=None, repr=False)
    socket_fd: int | None = None  # an inherited listening socket; `host` and `port` then only name it
    parent_fd: int | None = None  # closed when the parent process is gone
    family_dir: Path | None = None  # None: this process has no siblings and tells nobody how it stands
    place: int = _DEFAULT["place"]
    quiet: bool = _DEFAULT["quiet"]  # another process has said what there is to say at start


def load_config(environ: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The boot settings from flags (by field of `Config`; None means not given) and environment.

    Raises SetupError naming the flag or variable, its value and what is accepted.
    """
    values: dict[str, Any] = {}
    for option in OPTIONS:
        source, text = _given(option, environ, flags)
        if text is None:
            continue
        try:
            values[option.field] = option.parse(text)
        except ValueError as problem:
            raise SetupError(f"{source} takes {problem}; {_shown(option, text)} is not one") from problem
    if "data_dir" not in values:
        values["data_dir"] = default_data_dir(environ, os.geteuid() == 0)
    return _checked(Config(**values))


def _checked(config: Config) -> Config:
    if config.models is not None and (config.upstreams or config.embedding_upstreams):
        raise SetupError("The models come from a models file (--models) or from upstreams (--upstream), not from both")
    if config.models is not None and config.upstream_key_env is not None:
        raise SetupError(
            "A models file (--models) tells each route its key (api_key): --upstream-key-env is for --upstream"
        )
    if config.worker_heartbeat_seconds * 3 > config.worker_lease_seconds:
        raise SetupError(
            f"EBBTIDE_WORKER_HEARTBEAT_SECONDS={config.worker_heartbeat_seconds:g} is too long for "
            f"EBBTIDE_WORKER_LEASE_SECONDS={config.worker_lease_seconds:g}: a lease must last for three heartbeats"
        )
    return config


def as_environment(config: Config) -> dict[str, str]:
    """The same boot settings as variables, for a child process."""
    return {
        option.variable: _text(value)
        for option in OPTIONS
        if (value := getattr(config, option.field)) is not None and value != ()
    }


def _given(option: Option, environ: Mapping[str, str], flags: Mapping[str, object]) -> tuple[str, str | None]:
    flag = flags.get(option.field)
    if flag is not None and flag != [] and flag != ():
        return option.flag or option.field, _text(flag)
    return option.variable, environ.get(option.variable, "").strip() or option.default


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(str(part) for part in value)
    return str(value)


def _shown(option: Option, text: str) -> str:
    """The value as a message may carry it: a URL may hold a password, and a key be given in place of its name."""
    return "the value given" if option.parse in (postgres_url, token, variable) or "@" in text else repr(text)


def upstream_key(config: Config, environ: Mapping[str, str]) -> str | None:
    """The API key for the upstreams given, None for none. Raises SetupError, which does not show what was given."""
    if config.upstream_key_env is None:
        return None
    key = environ.get(config.upstream_key_env, "").strip()
    if not key or not (key.isascii() and key.isprintable()):
        raise SetupError("The variable that --upstream-key-env names is not set, or holds no key")
    return key


def place(config: Config) -> str:
    """Where the data are, without a password."""
    if config.database_url is None:
        return f"{config.data_dir} (embedded PostgreSQL)"
    parts = urlsplit(config.database_url)
    return f"PostgreSQL at {parts.hostname or 'the local socket'}{parts.path}"
