"""Changing run-time settings: checked first, stored all or none, each change with its row in the audit log.

Every process is told by NOTIFY once the change is committed; the one that made it also calls `SettingsSource.refresh`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ebbtide.errors import InvalidRequest, NotFound, SetupError
from ebbtide.records.audit import Deed, add_audit
from ebbtide.settings import store
from ebbtide.settings.registry import BY_NAME
from ebbtide.settings.snapshot import parse_setting
from ebbtide.settings.store import SETTINGS_CHANNEL, StoredSetting
from ebbtide.storage.notify import notify
from ebbtide.storage.pool import Connection, Database

MASK = "********"
_LONGEST_NAME = 100
_MOST_TOLD = 10

Stored = Mapping[str, StoredSetting]


async def change_settings(database: Database, changes: Mapping[str, str | None], actor: str, now: datetime) -> None:
    """Store each value as it was typed; None takes the stored one away. All of it, or nothing.

    Raises InvalidRequest, which names every setting that is unknown and every value that is not accepted.
    """
    async with database.transaction() as conn:
        stored = await _locked(conn)
        _check(changes, stored)
        for name, text in sorted(changes.items()):
            await _change(conn, stored.get(name), StoredSetting(name, (text or "").strip(), now, actor), text is None)
        await notify(conn, SETTINGS_CHANNEL)


async def set_setting(database: Database, name: str, value: str, actor: str, now: datetime) -> None:
    """Store one value as it was typed. Raises InvalidRequest for an unknown name, and with what is accepted."""
    await change_settings(database, {name: value}, actor, now)


async def reset_setting(database: Database, name: str, actor: str, now: datetime) -> bool:
    """Take the stored value away, so that the environment's or the default holds; False when none was stored.

    Also removes what another build stored under a name that this one does not know. Raises NotFound for other names.
    """
    async with database.transaction() as conn:
        old = (await _locked(conn)).get(name)
        if old is not None:
            await _change(conn, old, StoredSetting(name, "", now, actor), remove=True)
            await notify(conn, SETTINGS_CHANNEL)
    if old is None and name not in BY_NAME:
        raise NotFound(f"There is no setting {_shortened(name)!r}", param=_shortened(name))
    return old is not None


def shown_value(name: str, value: str) -> str:
    """A stored value as it may be shown; one of an unknown setting may be a secret of the build that knows it."""
    setting = BY_NAME.get(name)
    return MASK if value and (setting is None or setting.secret) else value


async def _locked(conn: Connection) -> Stored:
    await store.lock_settings(conn)
    return await store.list_stored(conn)


async def _change(conn: Connection, old: StoredSetting | None, new: StoredSetting, remove: bool) -> None:
    """Write one change and its audit row; what is as it was is left alone."""
    before = None if old is None else shown_value(old.name, old.value)
    after = None if remove else shown_value(new.name, new.value)
    if remove and old is not None:
        await store.remove_setting(conn, new.name)
    elif not remove and (old is None or old.value != new.value):
        await store.put_setting(conn, new)
    else:
        return
    action = "setting.reset" if remove else "setting.set"
    await add_audit(conn, Deed(new.updated_by, action, new.name, detail={"old": before, "new": after}), new.updated_at)


def _check(changes: Mapping[str, str | None], stored: Stored) -> None:
    problems = {name: words for name, text in changes.items() if (words := _problem(name, text, stored))}
    if not problems:
        return
    told = list(problems.values())[:_MOST_TOLD]
    if len(problems) > len(told):
        told.append(f"and {len(problems) - len(told)} more")
    raise InvalidRequest("; ".join(told), param=_shortened(next(iter(problems))))


def _problem(name: str, text: str | None, stored: Stored) -> str | None:
    setting = BY_NAME.get(name)
    if setting is None:
        return None if text is None and name in stored else f"There is no setting {_shortened(name)!r}"
    if text is None:
        return None
    try:
        parse_setting(setting, text)
    except SetupError as error:
        return error.message
    return None


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
