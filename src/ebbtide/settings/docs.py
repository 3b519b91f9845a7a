"""The settings reference, made from the two tables: `python -m ebbtide.settings.docs > docs/reference/settings.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ebbtide.config import OPTIONS, Option
from ebbtide.settings.registry import SETTINGS, Setting

_HEAD = """\
# Settings

This page is made from the tables that the program itself reads (`python -m ebbtide.settings.docs`, or
`ebbtide settings reference` on a machine that has it installed). Change those tables, not this page.

A variable that is set to nothing counts as unset. A value that is not accepted stops the start with a message that
names the setting, the value and what is accepted; `ebbtide doctor` says the same without starting anything.
"""

_BOOT = """\
## Boot settings

Read once when a process starts. Each is a flag of `ebbtide serve` and an environment variable; the flag wins, then the
variable, then the default.
"""

_RUN = """\
## Run-time settings

Read from the environment under exactly these names. Switches take `on` or `off` (also `true`/`false`, `yes`/`no`,
`1`/`0`).
"""

_CLIENT = """\
## Client settings

Read by the commands that talk to a gateway over HTTP (`ebbtide batch …`, `ebbtide models list`).

| Variable | Flag | Default | Meaning |
|---|---|---|---|
| `EBBTIDE_URL` | `--url` | `http://127.0.0.1:8080` | The gateway's address. |
| `EBBTIDE_API_KEY` | `--key` | none | The API key to use. |
"""


def settings_page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD, _BOOT, _table(_BOOT_HEAD, map(_boot_row, _shown_options())), _RUN, _run_table(), _CLIENT])


_BOOT_HEAD = ("Flag", "Variable", "Default", "Meaning")
_RUN_HEAD = ("Setting", "Default", "Accepts", "Unit", "Meaning")


def _shown_options() -> list[Option]:
    return [option for option in OPTIONS if not option.internal]


def _run_table() -> str:
    return _table(_RUN_HEAD, map(_run_row, SETTINGS))


def _boot_row(option: Option) -> tuple[str, ...]:
    default = "none" if option.default is None else f"`{option.default}`"
    return f"`{option.flag}`", f"`{option.variable}`", default, option.sentence


def _run_row(setting: Setting) -> tuple[str, ...]:
    return f"`{setting.name}`", f"`{default_text(setting)}`", setting.bounds, setting.unit, setting.sentence


def default_text(setting: Setting) -> str:
    """A setting's default as one would write it in the environment."""
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return str(setting.default)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(settings_page())
