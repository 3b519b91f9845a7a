"""The settings as an administrator sees them: what is in force, where it comes from, and what of the stored is ignored.

A process tells its own environment's part; another process may have been started with another environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from ebbtide.errors import NotFound
from ebbtide.settings import store
from ebbtide.settings.registry import BY_NAME, SETTINGS
from ebbtide.settings.setting import Setting, Value
from ebbtide.settings.snapshot import SettingsSource, with_stored
from ebbtide.settings.store import StoredSetting
from ebbtide.storage.pool import Database

Origin: TypeAlias = Literal["stored", "environment", "default"]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting; `value` and `default` are None for a secret, of which only `is_set` may be told, and for no amount.

    `updated_at` and `updated_by` tell of the stored value, `ignored` why it is not in force, if it is not.
    """

    setting: Setting
    value: Value
    is_set: bool
    source: Origin
    updated_at: datetime | None
    updated_by: str | None
    ignored: str | None

    @property
    def default(self) -> Value:
        return None if self.setting.secret else self.setting.default


@dataclass(frozen=True, slots=True)
class Overview:
    """Every setting in the order of the table, and the names of stored ones that this build does not know."""

    settings: list[SettingView]
    unknown: list[str]

    def one(self, name: str) -> SettingView:
        """Raises NotFound."""
        found = next((view for view in self.settings if view.setting.name == name), None)
        if found is None:
            raise NotFound(f"There is no setting {name[:100]!r}", param=name[:100])
        return found


async def list_settings(database: Database, source: SettingsSource) -> Overview:
    """What is stored now, over the environment of `source`."""
    async with database.connection() as conn:
        stored = await store.list_stored(conn)
    settings, ignored = with_stored(source.base, {name: row.value for name, row in stored.items()})
    views = []
    for setting in SETTINGS:
        row = stored.get(setting.name)
        origin: Origin = "environment" if setting.name in source.in_environment else "default"
        if row is not None and setting.name not in ignored:
            origin = "stored"
        views.append(_view(setting, getattr(settings, setting.attribute), origin, row, ignored.get(setting.name)))
    return Overview(views, [name for name in stored if name not in BY_NAME])


def _view(
    setting: Setting, value: Value, origin: Origin, row: StoredSetting | None, ignored: str | None
) -> SettingView:
    return SettingView(
        setting=setting,
        value=None if setting.secret else value,
        is_set=value not in ("", None),
        source=origin,
        updated_at=None if row is None else row.updated_at,
        updated_by=None if row is None else row.updated_by,
        ignored=ignored,
    )
