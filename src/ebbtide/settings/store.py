"""The statements of the table `settings`, one typed function each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ebbtide.storage.pool import Connection
from ebbtide.storage.queries import load_queries

SETTINGS_CHANNEL: Final = "ebbtide_settings"

_Q = load_queries("ebbtide.settings", "store.sql")


@dataclass(frozen=True, slots=True)
class StoredSetting:
    """A row: the value is text as it was typed, and may be one that this build does not take."""

    name: str
    value: str
    updated_at: datetime
    updated_by: str


async def lock_settings(conn: Connection) -> None:
    await conn.execute(_Q["lock_settings"])


async def list_stored(conn: Connection) -> dict[str, StoredSetting]:
    """The rows by name."""
    return {row["name"]: StoredSetting(**dict(row)) for row in await conn.fetch(_Q["list_stored"])}


async def put_setting(conn: Connection, stored: StoredSetting) -> None:
    await conn.execute(_Q["put_setting"], stored.name, stored.value, stored.updated_at, stored.updated_by)


async def remove_setting(conn: Connection, name: str) -> None:
    await conn.execute(_Q["remove_setting"], name)
