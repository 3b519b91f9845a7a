"""/admin/config: the run-time settings as they are, and changing them. In force at once here, elsewhere in seconds."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ebbtide.accounts.store import Principal
from ebbtide.api.answers import answer_json
from ebbtide.api.bodies import MIB, read_body
from ebbtide.api.gateway import Gateway
from ebbtide.api.routing import Admin, Described, Endpoint
from ebbtide.dialects.values import check_json
from ebbtide.errors import InvalidRequest
from ebbtide.settings import change, overview
from ebbtide.settings.docs import value_text
from ebbtide.settings.overview import SettingView
from ebbtide.settings.registry import BY_NAME
from ebbtide.settings.setting import Value as SettingValue

Value = bool | int | str


class ConfigEntry(msgspec.Struct, frozen=True):
    """A setting. Of a secret one `value` and `default` are null, and only `is_set` tells whether it holds anything.

    `bounds` says in words what is accepted; `minimum`, `maximum` (numbers) and `choices` say it for a form; of a
    `several` one its choices may stand together, comma-separated.
    `updated_at` and `updated_by` tell of the stored value, and `ignored` why that is not in force, if it is not.
    """

    name: str
    value: Value | None
    default: Value | None
    source: Literal["stored", "environment", "default"]
    type: Literal["boolean", "integer", "string"]
    minimum: int | None
    maximum: int | None
    choices: tuple[str, ...] | None
    several: bool
    bounds: str
    unit: str | None
    description: str
    secret: bool
    is_set: bool
    updated_at: datetime | None
    updated_by: str | None
    ignored: str | None
    object: Literal["setting"] = "setting"


class ConfigList(msgspec.Struct, frozen=True):
    """Every setting; `unknown` names stored ones that this build does not know and keeps as they are."""

    data: list[ConfigEntry]
    unknown: list[str]
    object: Literal["list"] = "list"


class ConfigReset(msgspec.Struct, frozen=True):
    """`deleted` tells whether a value was stored; `setting` is null for a name that this build does not know."""

    name: str
    deleted: bool
    setting: ConfigEntry | None
    object: Literal["setting.deleted"] = "setting.deleted"


async def list_settings(gateway: Gateway, request: Request, principal: Principal) -> Response:
    return await _answer_all(gateway)


async def change_settings(gateway: Gateway, request: Request, principal: Principal) -> Response:
    changes = parse_changes(await read_body(request, MIB))
    await change.change_settings(gateway.database, changes, principal.actor, gateway.clock.now())
    await gateway.settings.refresh(gateway.database)
    return await _answer_all(gateway)


async def reset_setting(gateway: Gateway, request: Request, principal: Principal) -> Response:
    name = request.path_params["key"]
    deleted = await change.reset_setting(gateway.database, name, principal.actor, gateway.clock.now())
    await gateway.settings.refresh(gateway.database)
    listed = await overview.list_settings(gateway.database, gateway.settings)
    entry = _entry(listed.one(name)) if name in BY_NAME else None
    return answer_json(ConfigReset(name, deleted, entry))


def parse_changes(raw: bytes) -> dict[str, str | None]:
    """The settings of a PATCH as text, None for one that is to be reset. Raises InvalidRequest."""
    body = check_json(raw)
    if not isinstance(body, dict):
        raise InvalidRequest('The body must be an object: {"NAME": value, …}, where null resets a setting')
    return {name: _text(name, value) for name, value in body.items()}


def _text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and name in BY_NAME and BY_NAME[name].kind is Decimal:
        return f"{Decimal(repr(value)):f}"
    accepted = BY_NAME[name].bounds if name in BY_NAME else "nothing, for there is no such setting"
    raise InvalidRequest(f"{name[:100]} takes {accepted}", param=name[:100])


async def _answer_all(gateway: Gateway) -> Response:
    listed = await overview.list_settings(gateway.database, gateway.settings)
    return answer_json(ConfigList([_entry(view) for view in listed.settings], listed.unknown))


def _wire(value: SettingValue) -> Value | None:
    """As JSON has it: an amount as text, so that no digit is lost."""
    return value_text(value) if isinstance(value, Decimal) else value


def _entry(view: SettingView) -> ConfigEntry:
    setting = view.setting
    is_number = setting.kind is int
    return ConfigEntry(
        name=setting.name,
        value=_wire(view.value),
        default=_wire(view.default),
        source=view.source,
        type=setting.wire_type,
        minimum=setting.minimum if is_number else None,
        maximum=setting.maximum if is_number else None,
        choices=setting.choices or None,
        several=setting.several,
        bounds=setting.bounds,
        unit=setting.unit or None,
        description=setting.sentence,
        secret=setting.secret,
        is_set=view.is_set,
        updated_at=view.updated_at,
        updated_by=view.updated_by,
        ignored=view.ignored,
    )


ROUTES: tuple[Endpoint, ...] = (
    Admin("GET", "/admin/config", list_settings, "List the run-time settings", Described(answer=ConfigList)),
    Admin(
        "PATCH",
        "/admin/config",
        change_settings,
        "Change run-time settings, all of those named or none",
        Described(request=dict[str, Value | float | None], answer=ConfigList, errors=(400, 413)),
    ),
    Admin(
        "DELETE",
        "/admin/config/{key}",
        reset_setting,
        "Reset a run-time setting to the environment's value or the default",
        Described(answer=ConfigReset, errors=(404,)),
    ),
)
