"""`ebbtide settings …`: works on the database directly; running gateways take a change up within seconds.

What comes from the environment is shown as this command's own environment has it.
"""

from __future__ import annotations

import getpass
import os
import sys

from cyclopts import App

from ebbtide.cli.actor import actor
from ebbtide.cli.bootflags import DatabaseFlags, read_config
from ebbtide.cli.database import open_database
from ebbtide.cli.output import AsJson, print_json, print_rows, tell
from ebbtide.cli.reference import reference_page
from ebbtide.clock import SystemClock
from ebbtide.settings import change
from ebbtide.settings.docs import value_text
from ebbtide.settings.overview import Overview, SettingView, list_settings
from ebbtide.settings.snapshot import SettingsSource
from ebbtide.storage.pool import Database

app = App(name="settings", help="Run-time settings: stored ones count first, then the environment, then the default.")
_COLUMNS = ("name", "value", "source", "unit", "updated_at", "updated_by")
_HERE = DatabaseFlags()


@app.command(name="list")
async def list_(*, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """List every setting with its value and where that comes from."""
    async with open_database(read_config(flags)) as database:
        overview = await _overview(database)
    print_rows((_row(view, as_json=json) for view in overview.settings), _COLUMNS, as_json=json, empty="")
    for view in overview.settings:
        if view.ignored is not None:
            tell(f"note: a stored value is ignored: {view.ignored}")
    for name in overview.unknown:
        tell(f"note: {name} is stored and is not a setting; `ebbtide settings reset {name}` removes it")


@app.command
async def get(name: str, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Print a setting's value; of a secret, only whether it is set."""
    async with open_database(read_config(flags)) as database:
        view = (await _overview(database)).one(name)
    _print(view, json)


@app.command(name="set")
async def set_(name: str, value: str | None = None, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Store a setting, in force everywhere within ten seconds.

    Without a value on the command line, where others may see a secret, it is asked for, or read from standard input.
    """
    text = _ask(name) if value is None else value
    async with open_database(read_config(flags)) as database:
        await change.set_setting(database, name, text, actor(), SystemClock().now())
        view = (await _overview(database)).one(name)
    _print(view, json)


@app.command
async def reset(name: str, /, *, json: AsJson = False, flags: DatabaseFlags = _HERE) -> None:
    """Remove what is stored for a setting, so that the environment's value or the default holds again."""
    async with open_database(read_config(flags)) as database:
        was_stored = await change.reset_setting(database, name, actor(), SystemClock().now())
        overview = await _overview(database)
    if not was_stored:
        tell(f"Nothing was stored for {name}.")
    view = next((view for view in overview.settings if view.setting.name == name), None)
    if view is not None:
        _print(view, json)


@app.command
def reference() -> None:
    """Print every setting with its name, default, bounds and meaning (Markdown)."""
    print(reference_page(), end="")


async def _overview(database: Database) -> Overview:
    return await list_settings(database, SettingsSource.from_environ(os.environ))


def _ask(name: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"{name}: ")
    return sys.stdin.readline().rstrip("\r\n")


def _print(view: SettingView, as_json: bool) -> None:
    row = _row(view, as_json=as_json)
    if as_json:
        print_json(row)
        return
    print(row["value"])
    if view.ignored is not None:
        tell(f"note: a stored value is ignored: {view.ignored}")


def _row(view: SettingView, *, as_json: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "name": view.setting.name,
        "value": view.value if as_json else _shown(view),
        "source": view.source,
        "unit": view.setting.unit or None,
        "updated_at": view.updated_at,
        "updated_by": view.updated_by,
    }
    if as_json:
        told = {"default": view.default, "bounds": view.setting.bounds, "secret": view.setting.secret}
        row |= told | {"is_set": view.is_set, "ignored": view.ignored}
    return row


def _shown(view: SettingView) -> str:
    if view.setting.secret:
        return "(secret, set)" if view.is_set else "(secret, not set)"
    return value_text(view.value)
