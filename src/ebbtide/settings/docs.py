"""The settings reference, made from the two tables that the program itself reads."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from ebbtide.config import OPTIONS, Option
from ebbtide.settings.registry import SETTINGS
from ebbtide.settings.setting import Setting, Value

_HEAD = """\
# Settings

This page is made from the tables that the program itself reads (`make docs`; `ebbtide settings reference` prints it
on a machine that has it installed). Change those tables, not this page.

A variable that is set to nothing counts as unset. A value that is not accepted stops the start with a message that
names the setting, the value and what is accepted; `ebbtide doctor` says the same without starting the gateway.
"""

_BOOT = """\
## Boot settings

Read once when a process starts. Each is a flag of `ebbtide serve`, bar secrets, and an environment variable; the flag
wins, then the variable, then the default.
"""

_RUN = """\
## Run-time settings

Each may be stored in the database (`ebbtide settings set`, or `/admin/config` of the
[administration interface](../admin-api.md)) and given in the environment under exactly its name. What is stored counts
first, then the environment, then the default. A change of what is stored is in force in every process within ten
seconds; a change of the environment needs a restart.

Switches take `on` or `off` (also `true`/`false`, `yes`/`no`, `1`/`0`). A value outside what is accepted is refused and
nothing changes. A stored value that this release does not know or accept, left by another one, is kept, has no effect
and is logged once. Only whether a secret is set is ever shown.
"""


def settings_page() -> str:
    """Boot and run-time settings as a Markdown page."""
    return "\n".join([_HEAD, _BOOT, table(_BOOT_HEAD, map(_boot_row, _shown_options())), _RUN, _run_table()])


_BOOT_HEAD = ("Flag", "Variable", "Default", "Meaning")
_RUN_HEAD = ("Setting", "Default", "Accepts", "Unit", "Meaning")


def _shown_options() -> list[Option]:
    return [option for option in OPTIONS if not option.internal]


def _run_table() -> str:
    return table(_RUN_HEAD, map(_run_row, SETTINGS))


def _boot_row(option: Option) -> tuple[str, ...]:
    default = "none" if option.default is None else f"`{option.default}`"
    flag = "none" if option.flag is None else f"`{option.flag}`"
    return flag, f"`{option.variable}`", default, option.sentence


def _run_row(setting: Setting) -> tuple[str, ...]:
    default = f"`{value_text(setting.default)}`" if setting.default not in ("", None) else "none"
    sentence = f"{setting.sentence} Secret: never shown." if setting.secret else setting.sentence
    return f"`{setting.name}`", default, setting.bounds, setting.unit, sentence


def value_text(value: Value) -> str:
    """A setting's value as one would type it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
