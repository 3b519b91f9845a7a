"""The settings reference as a page: what the program reads, and what the client commands read."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import get_type_hints

from cyclopts import Parameter

from ebbtide.cli.gateway import GatewayOptions
from ebbtide.settings.docs import settings_page, table

_CLIENT = """\
## Client settings

Read by the commands that talk to a gateway over HTTP (`ebbtide batch …`, `ebbtide models list`).
"""


def reference_page() -> str:
    """The whole page as Markdown."""
    return "\n".join([settings_page(), _CLIENT, table(("Variable", "Flag", "Default", "Meaning"), _client_rows())])


def _client_rows() -> list[tuple[str, ...]]:
    hints = get_type_hints(GatewayOptions, include_extras=True)
    rows: list[tuple[str, ...]] = []
    for option in fields(GatewayOptions):
        parameter = next(told for told in hints[option.name].__metadata__ if isinstance(told, Parameter))
        (variable,) = parameter.env_var or ()
        default = "none" if option.default in (None, MISSING) else f"`{option.default}`"
        rows.append((f"`{variable}`", f"`--{option.name}`", default, parameter.help or ""))
    return rows
