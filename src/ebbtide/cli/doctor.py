"""`ebbtide doctor`: looks at everything a start needs and says in words what is wrong.

It writes nothing into the database; where the embedded server does not run, it is started for the look.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import AsyncIterator, Iterator, Mapping

from ebbtide.cli import exits
from ebbtide.cli.bootflags import ServeFlags, read_config
from ebbtide.cli.doctor_database import check_database
from ebbtide.cli.doctor_models import check_models
from ebbtide.cli.findings import Finding, bad, ok, warn
from ebbtide.config import OPTIONS, PREFIX, Config
from ebbtide.errors import SetupError
from ebbtide.listening import listen
from ebbtide.settings.registry import SETTINGS
from ebbtide.settings.snapshot import load_settings

_CLIENT = frozenset({"EBBTIDE_URL", "EBBTIDE_API_KEY"})
_OLDEST_PYTHON = (3, 11)


async def doctor(flags: ServeFlags = ServeFlags()) -> int:  # noqa: B008  frozen
    """Say what is wrong with the set-up, in words; takes the flags that `serve` would get.

    Ends with status 1 when something is bad.
    """
    worst = exits.OK
    async for finding in _examine(flags):
        print(finding, flush=True)
        if finding.level == "bad":
            worst = exits.REFUSED
    return worst


async def _examine(flags: ServeFlags) -> AsyncIterator[Finding]:
    yield check_python(sys.version_info[:2])
    for finding in check_environment(os.environ):
        yield finding
    try:
        config = read_config(flags)
    except SetupError as error:
        yield bad("boot settings", error.message, "Correct it; what depends on it was not looked at.")
        return
    async for finding in check_database(config):
        yield finding
    async for finding in check_models(config, os.environ):
        yield finding
    if config.role != "worker":
        yield check_port(config)


def check_python(version: tuple[int, int]) -> Finding:
    """Whether this Python is new enough."""
    if version < _OLDEST_PYTHON:
        return bad("python", f"this is {platform.python_version()}", "Install Python 3.11 or newer.")
    return ok("python", platform.python_version())


def check_environment(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the run-time settings are valid, and whether a name looks like one and is none."""
    try:
        load_settings(environ)
        changed = sum(1 for setting in SETTINGS if environ.get(setting.name))
        yield ok("settings", f"{changed} set in the environment, the others have their defaults")
    except SetupError as error:
        yield bad("settings", error.message, "Correct or unset the variable.")
    known = {setting.name for setting in SETTINGS} | {option.variable for option in OPTIONS} | _CLIENT
    for name in sorted(environ):
        if name.startswith(("BATCH_", PREFIX)) and name not in known:
            yield warn(
                "settings", f"{name} is not a setting and does nothing", "`ebbtide settings reference` lists them."
            )


def check_port(config: Config) -> Finding:
    """Whether the HTTP server could listen where it is told to."""
    place = f"{config.host} port {config.port}"
    try:
        listen(config.host, config.port).close()
    except SetupError as error:
        return bad("http", error.message, "Stop what listens there (a running gateway?), or choose another --port.")
    return ok("http", f"{place} is free")
