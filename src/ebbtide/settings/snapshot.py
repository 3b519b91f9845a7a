"""The run-time settings as one frozen value: built whole and checked whole, then swapped in, never changed in place.

What is stored counts first, then the environment, then the default. A stored value that cannot be used is ignored and
told once, for it may come from another release; one in the environment stops the start.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import structlog

from ebbtide.dialects.values import Limits
from ebbtide.duties import Duty
from ebbtide.errors import SetupError
from ebbtide.settings.registry import BY_NAME, SETTINGS
from ebbtide.settings.setting import Setting, Value
from ebbtide.settings.store import SETTINGS_CHANNEL, list_stored
from ebbtide.storage.notify import Listener
from ebbtide.storage.pool import Database

POLL_SECONDS: Final = 4.0
_READ_SECONDS: Final = 4.0  # with the jittered poll, a change is seen within ten seconds even after a lost answer

log = structlog.get_logger(__name__)

RoleName: TypeAlias = Literal["free", "pro", "internal", "admin"]

_ON = frozenset({"1", "true", "on", "yes"})
_OFF = frozenset({"0", "false", "off", "no"})
_LONGEST_URL = 2_048
_AMOUNT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?")
_REFUSED: Final = object()
_DEFAULT: Final[Mapping[str, Any]] = {setting.attribute: setting.default for setting in SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every run-time setting; an attribute is its setting's name in lower case, in the unit of the table.

    Names and types stand here too, for those who read one; a test holds them equal to the table's.
    """

    batch_enabled: bool = _DEFAULT["batch_enabled"]
    batch_min_role: RoleName = _DEFAULT["batch_min_role"]
    batch_model_concurrency: int = _DEFAULT["batch_model_concurrency"]
    batch_yield_to_interactive: bool = _DEFAULT["batch_yield_to_interactive"]
    batch_shared_interactive_load: bool = _DEFAULT["batch_shared_interactive_load"]
    batch_interactive_reserve: int = _DEFAULT["batch_interactive_reserve"]
    batch_min_share: int = _DEFAULT["batch_min_share"]
    batch_queued_alert_hours: int = _DEFAULT["batch_queued_alert_hours"]
    batch_max_requests: int = _DEFAULT["batch_max_requests"]
    batch_max_body_mb: int = _DEFAULT["batch_max_body_mb"]
    batch_max_active_per_user: int = _DEFAULT["batch_max_active_per_user"]
    batch_completion_window_hours: int = _DEFAULT["batch_completion_window_hours"]
    batch_retention_days: int = _DEFAULT["batch_retention_days"]
    batch_max_queued_requests_per_user: int = _DEFAULT["batch_max_queued_requests_per_user"]
    batch_role_concurrency_free: int = _DEFAULT["batch_role_concurrency_free"]
    batch_role_concurrency_pro: int = _DEFAULT["batch_role_concurrency_pro"]
    batch_role_concurrency_internal: int = _DEFAULT["batch_role_concurrency_internal"]
    batch_role_concurrency_admin: int = _DEFAULT["batch_role_concurrency_admin"]
    batch_max_line_kb: int = _DEFAULT["batch_max_line_kb"]
    batch_max_result_kb: int = _DEFAULT["batch_max_result_kb"]
    batch_max_results_mb_per_batch: int = _DEFAULT["batch_max_results_mb_per_batch"]
    batch_files_max_total_mb_per_user: int = _DEFAULT["batch_files_max_total_mb_per_user"]
    batch_file_uploads_per_hour: int = _DEFAULT["batch_file_uploads_per_hour"]
    batch_file_retention_days: int = _DEFAULT["batch_file_retention_days"]
    batch_anthropic_versions: str = _DEFAULT["batch_anthropic_versions"]
    batch_message_batches: bool = _DEFAULT["batch_message_batches"]
    batch_webhook_allow_private_targets: bool = _DEFAULT["batch_webhook_allow_private_targets"]
    alert_webhook_url: str = field(default=_DEFAULT["alert_webhook_url"], repr=False)
    request_log_retention_days: int = _DEFAULT["request_log_retention_days"]
    db_store_full_content: bool = _DEFAULT["db_store_full_content"]
    routing_breaker_failures: int = _DEFAULT["routing_breaker_failures"]
    routing_breaker_seconds: int = _DEFAULT["routing_breaker_seconds"]
    routing_affinity_minutes: int = _DEFAULT["routing_affinity_minutes"]
    stream_request_timeout_seconds: int = _DEFAULT["stream_request_timeout_seconds"]
    user_concurrency_free: int = _DEFAULT["user_concurrency_free"]
    user_concurrency_pro: int = _DEFAULT["user_concurrency_pro"]
    user_concurrency_internal: int = _DEFAULT["user_concurrency_internal"]
    user_concurrency_admin: int = _DEFAULT["user_concurrency_admin"]
    daily_quota_usd_free: Decimal | None = _DEFAULT["daily_quota_usd_free"]
    daily_quota_usd_pro: Decimal | None = _DEFAULT["daily_quota_usd_pro"]
    daily_quota_usd_internal: Decimal | None = _DEFAULT["daily_quota_usd_internal"]
    daily_quota_usd_admin: Decimal | None = _DEFAULT["daily_quota_usd_admin"]
    monthly_quota_usd_free: Decimal | None = _DEFAULT["monthly_quota_usd_free"]
    monthly_quota_usd_pro: Decimal | None = _DEFAULT["monthly_quota_usd_pro"]
    monthly_quota_usd_internal: Decimal | None = _DEFAULT["monthly_quota_usd_internal"]
    monthly_quota_usd_admin: Decimal | None = _DEFAULT["monthly_quota_usd_admin"]
    session_lifetime_hours: int = _DEFAULT["session_lifetime_hours"]
    session_idle_minutes: int = _DEFAULT["session_idle_minutes"]
    request_max_messages: int = _DEFAULT["request_max_messages"]
    request_max_content_parts: int = _DEFAULT["request_max_content_parts"]
    request_max_tools: int = _DEFAULT["request_max_tools"]
    request_max_stop_sequences: int = _DEFAULT["request_max_stop_sequences"]
    request_timeout_seconds: int = _DEFAULT["request_timeout_seconds"]

    @property
    def request_limits(self) -> Limits:
        """How much one request may hold."""
        return Limits(
            self.request_max_messages,
            self.request_max_content_parts,
            self.request_max_tools,
            self.request_max_stop_sequences,
        )

    def batch_role_concurrency(self, role: RoleName) -> int:
        """Batch requests that one account of `role` may have running at once; 0 means no cap."""
        return {
            "free": self.batch_role_concurrency_free,
            "pro": self.batch_role_concurrency_pro,
            "internal": self.batch_role_concurrency_internal,
            "admin": self.batch_role_concurrency_admin,
        }[role]

    def user_concurrency(self, role: RoleName) -> int:
        """Interactive requests that one account of `role` may have running at once; 0 means no cap."""
        cap: int = getattr(self, f"user_concurrency_{role}")
        return cap

    def quotas_usd(self, role: RoleName) -> tuple[Decimal | None, Decimal | None]:
        """What an account of `role` may spend a day and a month; None means no limit."""
        return getattr(self, f"daily_quota_usd_{role}"), getattr(self, f"monthly_quota_usd_{role}")


class SettingsSource:
    """Where a room reads the settings in force: `current` is a whole snapshot, to be read once per piece of work.

    `base` is what holds where nothing is stored; `in_environment` names what of it the environment gave.
    """

    def __init__(self, base: Settings, in_environment: frozenset[str] = frozenset()) -> None:
        self.base = base
        self.in_environment = in_environment
        self._current = base
        self._refreshing = asyncio.Lock()
        self._warned: set[tuple[str, str]] = set()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> SettingsSource:
        """The settings of this environment, until `refresh` puts what is stored on top. Raises SetupError."""
        given = frozenset(setting.name for setting in SETTINGS if environ.get(setting.name, "").strip())
        return cls(load_settings(environ), given)

    @property
    def current(self) -> Settings:
        return self._current

    def swap(self, settings: Settings) -> None:
        """Put another snapshot in force, whole."""
        self._current = settings

    async def refresh(self, database: Database) -> None:
        """Put in force what is stored now. Raises Unavailable, and the snapshot stays."""
        async with self._refreshing:  # so that an older answer never replaces a newer one
            async with database.connection() as conn:
                stored = {name: row.value for name, row in (await list_stored(conn)).items()}
            settings, ignored = with_stored(self.base, stored)
            self._warn({name: stored[name] for name in ignored}, ignored)
            self.swap(settings)

    def following(self, database: Database, listener: Listener) -> Duty:
        """Refreshing whenever a change is told, and every few seconds in case it is not."""

        async def refresh(now: datetime) -> int:
            await self.refresh(database)
            return 0

        return Duty("settings", refresh, POLL_SECONDS, listener.subscribe(SETTINGS_CHANNEL), limit=_READ_SECONDS)

    def _warn(self, stored: Mapping[str, str], ignored: Mapping[str, str]) -> None:
        """Tell of each stored value that is ignored, once."""
        for name, value in stored.items():
            if (name, value) not in self._warned:
                self._warned.add((name, value))
                log.warning("stored_setting_ignored", setting=name, reason=ignored[name])


def with_stored(base: Settings, stored: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """`base` with the stored values (text by name) on top.

    The second part tells, by name, why a value is left out: unknown to this build, or not accepted by it.
    """
    values: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    for name, text in stored.items():
        setting = BY_NAME.get(name)
        if setting is None:
            ignored[name] = f"{name} is not a setting of this build"
            continue
        try:
            values[setting.attribute] = parse_setting(setting, text)
        except SetupError as error:
            ignored[name] = error.message
    return replace(base, **values), ignored


def load_settings(environ: Mapping[str, str]) -> Settings:
    """The settings of this environment; a variable that is unset or empty takes the default.

    Raises SetupError with the name, the value and what is accepted.
    """
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text = environ.get(setting.name, "").strip()
        if text:
            values[setting.attribute] = parse_setting(setting, text)
    return Settings(**values)


def parse_setting(setting: Setting, text: str) -> Value:
    """One setting's value out of its text.

    Raises SetupError with the name, the value (unless it is a secret) and what is accepted.
    """
    value = _read(setting, text.strip())
    if value is _REFUSED:
        given = f"What {setting.name} was given" if setting.secret else f"{setting.name}={text!r}"
        raise SetupError(f"{given} is not accepted: it takes {setting.bounds}", param=setting.name)
    return cast("Value", value)


def _read(setting: Setting, text: str) -> Value | object:
    if setting.kind is bool:
        word = text.lower()
        return (word in _ON) if word in _ON | _OFF else _REFUSED
    if setting.several:
        return _some_of(setting.choices, text)
    if setting.kind is Decimal:
        return _read_amount(text)
    if setting.choices:
        return text.lower() if text.lower() in setting.choices else _REFUSED
    if setting.kind is str:
        return text if not text or _is_url(text) else _REFUSED
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        return _REFUSED
    number = int(text)
    return number if setting.minimum <= number <= setting.maximum else _REFUSED


def _some_of(choices: tuple[str, ...], text: str) -> str | object:
    """The named choices in the table's order; refused when one is none of them, or none is named."""
    named = {word.strip().lower() for word in text.split(",")}
    return ",".join(choice for choice in choices if choice in named) if named <= set(choices) else _REFUSED


def _read_amount(text: str) -> Value | object:
    if not text:
        return None
    return Decimal(text) if _AMOUNT.fullmatch(text) else _REFUSED


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        valid_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    plain = len(text) <= _LONGEST_URL and text.isascii() and text.isprintable() and " " not in text
    return plain and valid_port and parts.scheme in ("http", "https") and bool(parts.hostname)
